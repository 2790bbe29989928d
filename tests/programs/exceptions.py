"""try, except, else, finally, groups, notes, and what stays of an exception afterwards."""

import traceback


def attempt(n):
    log = []
    try:
        value = 10 / n
    except ZeroDivisionError as error:
        log.append(type(error).__name__)
        value = None
    else:
        log.append("else")
    finally:
        log.append("finally")
    return value, log


def finally_wins():
    try:
        raise KeyError("lost")
    finally:
        return "kept"


def loop():
    out = []
    for i in range(5):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            out.append(i)
        finally:
            out.append(-i)
    else:
        out.append("else")
    return out


def group():
    errors = [ValueError("v"), TypeError("t"), OSError("o")]
    try:
        raise ExceptionGroup("several", errors)
    except* ValueError as found:
        print("values", len(found.exceptions))
    except* (TypeError, OSError) as found:
        print("others", len(found.exceptions))


def lines():
    try:
        x = 1
        attempt("a")
    except TypeError as error:
        error.add_note("noted")
        frames = traceback.extract_tb(error.__traceback__)
        return [(frame.name, frame.lineno) for frame in frames], error.__notes__


if __name__ == "__main__":
    print(attempt(0), attempt(5), finally_wins(), loop())
    group()
    print(lines())
    try:
        error
    except NameError as error:
        print(error)
    print("error" in globals())

# Output:
# (None, ['ZeroDivisionError', 'finally']) (2.0, ['else', 'finally']) kept [0, 0, -1, 2, -2, -3]
# values 1
# others 2
# ([('lines', 56), ('attempt', 9)], ['noted'])
# name 'error' is not defined
# False

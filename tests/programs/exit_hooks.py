# What a program does when it ends.
# Status: 5
import atexit
import sys
import weakref


class Resource:
    pass


def report(name):
    text = f"at exit: {name}"
    print(text)


def main():
    atexit.register(report, "first")
    atexit.register(report, "second")
    resource = Resource()
    weakref.finalize(resource, print, "finalized")
    del resource
    print("leaving")
    try:
        sys.exit(5)
    finally:
        print("finally")


main()


# Output:
# finalized
# leaving
# finally
# at exit: second
# at exit: first

# Functions and instances through pickle and copy, while they are instrumented.
import copy
import pickle


def double(x):
    y = x * 2
    return y


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __reduce__(self):
        return Point, (self.x, self.y)

    def length(self):
        total = self.x**2 + self.y**2
        return total**0.5


def main():
    data = pickle.dumps(double)
    print(b"clew" in data, len(data), pickle.loads(data) is double)
    point = Point(3, 4)
    other = pickle.loads(pickle.dumps(point))
    print(other.length(), type(other) is Point)
    bound = pickle.loads(pickle.dumps(point.length))
    print(bound(), copy.deepcopy(point).length(), sorted(vars(copy.copy(point))))
    print(copy.deepcopy({"f": double})["f"] is double)


main()


# Output:
# False 34 True
# 5.0 True
# 5.0 5.0 ['x', 'y']
# True

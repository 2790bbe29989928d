"""Classes: super, slots, properties, descriptors, metaclasses, class cells and private names."""


class Meta(type):
    def __new__(mcs, name, bases, names, **options):
        names["made_with"] = sorted(options)
        made = super().__new__(mcs, name, bases, names)
        return made

    def __init__(cls, name, bases, names, **options):
        super().__init__(name, bases, names)


class Base(metaclass=Meta, a=1):
    __slots__ = ("__hidden", "x")

    def __init__(self, x):
        self.x = x
        self.__hidden = x * 2

    @property
    def hidden(self):
        value = self.__hidden
        return value

    @hidden.setter
    def hidden(self, value):
        self.__hidden = value

    def __init_subclass__(cls, **options):
        super().__init_subclass__()
        cls.tag = cls.__name__.lower()

    def who(self):
        return __class__.__name__


class Derived(Base):
    def __init__(self, x, y):
        super().__init__(x)
        self.y = y

    def __eq__(self, other):
        same = (self.x, self.y) == (other.x, other.y)
        return same

    def __hash__(self):
        return hash((self.x, self.y))

    def __getattr__(self, name):
        text = f"no {name}"
        raise AttributeError(text)

    @classmethod
    def make(cls, *args):
        made = cls(*args)
        return made


class Cached:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        if instance is None:
            return self
        value = instance.__dict__[self.name] = len(instance.__dict__)
        return value


class Holder:
    size = Cached()


if __name__ == "__main__":
    d = Derived.make(1, 2)
    d.hidden = 9
    print(d.hidden, d.who(), d.tag, Derived.made_with, Base.made_with, d == Derived(1, 2), len({d, Derived(1, 2)}))
    print(hasattr(d, "missing"), getattr(d, "missing", "none"), Holder().size, [c.__name__ for c in Derived.__mro__])

# Output:
# 9 Base derived [] ['a'] True 1
# False none 0 ['Derived', 'Base', 'object']

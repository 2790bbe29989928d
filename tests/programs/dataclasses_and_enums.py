# Classes that Python makes methods for.
import dataclasses
import enum
import functools
from typing import NamedTuple


class Mode(enum.Enum):
    TRAIN = "train"
    EVAL = "eval"

    @property
    def short(self):
        return self.value[0]


@dataclasses.dataclass(order=True, frozen=True)
class Step:
    number: int
    loss: float = 0.0
    tags: tuple = dataclasses.field(default=(), compare=False)

    def __post_init__(self):
        if self.number < 0:
            raise ValueError(f"number is {self.number}")

    @functools.cached_property
    def rounded(self):
        value = round(self.loss, 2)
        return value


class Place(NamedTuple):
    row: int
    column: int = 0

    def next(self):
        return self._replace(column=self.column + 1)


def main():
    steps = [Step(2, 0.123), Step(1, 0.456, ("best",))]
    print(sorted(steps)[0], dataclasses.asdict(steps[1]))
    try:
        steps[0].loss = 3
    except dataclasses.FrozenInstanceError as error:
        print(type(error).__name__, error)
    try:
        Step(-1)
    except ValueError as error:
        print(error)
    print(Mode("eval").short, [mode.name for mode in Mode], Place(1).next(), hash(Place(1)) == hash((1, 0)))
    match steps[0]:
        case Step(number=number) if number > 1:
            print("step", number)


main()


# Output:
# Step(number=1, loss=0.456, tags=('best',)) {'number': 1, 'loss': 0.456, 'tags': ('best',)}
# FrozenInstanceError cannot assign to field 'loss'
# number is -1
# e ['TRAIN', 'EVAL'] Place(row=1, column=1) True
# step 2

from __future__ import annotations

import enum
import re
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation


class Kind(enum.Enum):
    SALE = "sale"
    REFUND = "refund"


class ValidationError(Exception):
    def __init__(self, field, message):
        super().__init__(f"{field}: {message}")
        self.field = field


EMAIL = re.compile(r"^[\w.]+@[\w.]+\.\w+$")


@dataclass
class Line:
    sku: str
    qty: int
    price: Decimal

    @property
    def total(self):
        return self.qty * self.price


@dataclass
class Order:
    id: int
    email: str
    kind: Kind
    when: datetime
    lines: list[Line] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: dict) -> Order:
        try:
            when = datetime.fromisoformat(raw["when"])
        except (KeyError, ValueError) as e:
            raise ValidationError("when", str(e)) from e
        email = raw.get("email", "").strip().lower()
        if not EMAIL.match(email):
            raise ValidationError("email", f"bad address {email!r}")
        lines = []
        for n, item in enumerate(raw.get("lines", [])):
            try:
                price = Decimal(str(item["price"]))
            except (KeyError, InvalidOperation):
                raise ValidationError(f"lines[{n}].price", "not a number") from None
            if item.get("qty", 1) <= 0:
                continue
            lines.append(Line(item["sku"].upper(), item.get("qty", 1), price))
        return cls(int(raw["id"]), email, Kind(raw.get("kind", "sale")), when, lines)

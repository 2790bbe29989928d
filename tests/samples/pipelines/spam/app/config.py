from dataclasses import dataclass, field


@dataclass
class Config:
    dim: int = 16
    max_len: int = 12
    labels: list = field(default_factory=lambda: ["spam", "ham"])
    threshold: float = 0.5


CFG = Config()

"""A checkpoint, a tokenizer and settings that are loaded after the modules are imported."""
import train
from app.pipeline import classify

CHANGED = "nothing"
WORDS = "win money now meeting at noon cheap pills lunch with the team wins meetings zzz ! é".split()


def prepare():
    train.main()
    train.load()
    return classify, ["win money now", "meeting", ""]


def random_input(rng):
    return {"text": " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 20)))}

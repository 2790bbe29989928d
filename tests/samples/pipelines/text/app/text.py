import re
import unicodedata

_SPACES = re.compile(r"\s+")


def normalise(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    return _SPACES.sub(" ", text).strip()

import heapq
import re
from collections import defaultdict, namedtuple

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

Hit = namedtuple("Hit", "id title score")


def tokenize(text):
    return [t for t in re.split(r"\W+", text.lower()) if len(t) > 1]


class Index:
    def __init__(self):
        self.docs = []
        self.vectorizer = TfidfVectorizer(tokenizer=tokenize, token_pattern=None, ngram_range=(1, 2))
        self.matrix = None
        self.inverted = defaultdict(set)

    def fit(self, docs):
        self.docs = docs
        self.matrix = self.vectorizer.fit_transform(d["text"] for d in docs)
        for i, d in enumerate(docs):
            for t in tokenize(d["text"]):
                self.inverted[t].add(i)
        return self

    def search(self, query, k=3):
        query = query.strip()
        if not query:
            return []
        candidates = set()
        for t in tokenize(query):
            candidates |= self.inverted.get(t, set())
        if not candidates:
            return []
        scores = cosine_similarity(self.vectorizer.transform([query]), self.matrix)[0]
        best = heapq.nlargest(k, candidates, key=lambda i: (scores[i], -i))
        return [Hit(self.docs[i]["id"], self.docs[i]["title"], round(float(scores[i]), 6)) for i in best]


index = Index()


def answer(query: str):
    hits = index.search(query)
    lines = [f"{n}. {h.title} ({h.score:.2f})" for n, h in enumerate(hits, 1)]
    return {"hits": [h._asdict() for h in hits], "text": "\n".join(lines) or "nothing found"}

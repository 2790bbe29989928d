import torch

from app.gpt import GPT

CHARS = "\n abcdefghijklmnopqrstuvwxyz.!"
stoi = {c: i for i, c in enumerate(CHARS)}
itos = dict(enumerate(CHARS))
EOS = stoi["."]


class Generator:
    def __init__(self, model, max_new=20, repetition=1.3):
        self.model = model
        self.max_new = max_new
        self.repetition = repetition

    @classmethod
    def from_checkpoint(cls, path):
        state = torch.load(path, weights_only=True)
        model = GPT(len(CHARS))
        model.load_state_dict(state)
        model.eval()
        return cls(model)

    def encode(self, text):
        return [stoi[c] for c in text.lower() if c in stoi]

    def decode(self, ids):
        return "".join(itos[i] for i in ids)

    @torch.no_grad()
    def __call__(self, prompt, max_new=None):
        ids = self.encode(prompt)
        if not ids:
            raise ValueError("empty prompt")
        idx = torch.tensor([ids])
        scores = []
        for _ in range(max_new or self.max_new):
            logits = self.model(idx[:, -self.model.block :])[0, -1]
            for i in set(idx[0].tolist()):
                logits[i] /= self.repetition
            probs = torch.softmax(logits, -1)
            best = torch.argmax(probs)
            scores.append(probs[best].item())
            idx = torch.cat([idx, best.view(1, 1)], dim=1)
            if best.item() == EOS:
                break
        new = idx[0, len(ids) :].tolist()
        return {"text": self.decode(new), "finished": new[-1] == EOS, "mean": sum(scores) / len(scores), "n": len(new)}

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from app import pipeline
from app.config import CFG
from app.net import net


def main():
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.train_from_iterator(
        ["win money now", "meeting at noon", "cheap pills win win", "lunch with the team"] * 3,
        trainers.BpeTrainer(vocab_size=60, special_tokens=["<unk>"]),
    )
    tok.save("tok.json")
    torch.manual_seed(1)
    for p in net.parameters():
        torch.nn.init.normal_(p)
    torch.save(net.state_dict(), "ckpt.pt")


def load():
    pipeline.tok = Tokenizer.from_file("tok.json")
    net.load_state_dict(torch.load("ckpt.pt", weights_only=True))
    net.eval()
    CFG.threshold = 0.61
    CFG.max_len = 9
    pipeline.bias["spam"] = 0.01

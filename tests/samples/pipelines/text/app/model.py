import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from app.text import normalise

LABELS = ["negative", "neutral", "positive"]
CORPUS = ["the film was great", "a terrible film indeed", "it was so so", "I loved every minute", "boring and long"]
tokenizer = None
model = None
device = torch.device("cpu")


def build(seed=0):
    global tokenizer, model
    torch.manual_seed(seed)
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tok.train_from_iterator(CORPUS, trainer)
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=32,
    )
    config = BertConfig(
        vocab_size=tok.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, num_labels=3, max_position_embeddings=40,
    )
    model = BertForSequenceClassification(config).eval().to(device)


@torch.no_grad()
def predict(text):
    encoded = tokenizer(normalise(text), return_tensors="pt", truncation=True, max_length=32)
    encoded = {k: v.to(device) for k, v in encoded.items()}
    logits = model(**encoded).logits
    probs = logits.softmax(-1)[0]
    best = int(probs.argmax())
    return {"label": LABELS[best], "score": round(probs[best].item(), 4), "probs": probs.tolist()}

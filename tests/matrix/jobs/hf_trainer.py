"""Hugging Face Trainer on a tiny GPT-2: accumulation, evaluation within epochs, saving."""

import tempfile

import transformers
from facts import *


class Model(transformers.GPT2LMHeadModel):
    """Notes losses and sleeps in evaluations as Net does."""

    def __init__(self, config):
        super().__init__(config)
        self.noted = Net()

    def forward(self, input_ids=None, labels=None, attention_mask=None, **more):
        if not self.training:
            time.sleep(EVALUATION_S)
            self.noted.slept += EVALUATION_S
        out = super().forward(input_ids=input_ids, labels=labels, attention_mask=attention_mask, **more)
        if self.training:
            self.noted.note(out.loss)
        return out


class Tokens(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        ids = torch.randint(0, 50, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones(16, dtype=torch.long)}


transformers.set_seed(0)
config = transformers.GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2)
model = Model(config)
with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        folder,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,
        num_train_epochs=2,
        eval_strategy="steps",
        eval_steps=4,
        save_strategy="epoch",
        logging_steps=5,
        dataloader_num_workers=0,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Tokens(96), eval_dataset=Tokens(12))
    trainer.train()
    model.noted.say(trainer.state.global_step)
    leave()

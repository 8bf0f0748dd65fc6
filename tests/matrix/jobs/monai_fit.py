"""MONAI: cached dataset and its own DataLoader. Argument "engine": its SupervisedTrainer with an evaluator between epochs,
else the hand-written loop of its tutorials."""

import monai
from facts import *
from monai.data import CacheDataset, DataLoader
from monai.transforms import Compose, EnsureTyped, Lambdad


def dataset(size):
    items = [{"image": x, "label": y} for x, y in (Data()[i] for i in range(size))]
    return CacheDataset(
        items, Compose([EnsureTyped(["image", "label"]), Lambdad("image", lambda x: x * 2)]), progress=False
    )


monai.utils.set_determinism(0)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
training, held_out = DataLoader(dataset(64), batch_size=4, shuffle=True), DataLoader(dataset(12), batch_size=4)


def noted(prediction, y):
    return net.note(F.mse_loss(prediction, y))


def by_hand():
    steps = 0
    for _ in range(2):
        net.train()
        for batch in training:
            optimizer.zero_grad()
            noted(net(batch["image"]), batch["label"]).backward()
            optimizer.step()
            steps += 1
        net.eval()
        with torch.no_grad():
            for batch in held_out:
                F.mse_loss(net(batch["image"]), batch["label"])
    return steps


def by_engine():
    from monai.engines import SupervisedEvaluator, SupervisedTrainer
    from monai.handlers import ValidationHandler

    device = torch.device("cpu")
    evaluator = SupervisedEvaluator(device=device, val_data_loader=held_out, network=net)
    trainer = SupervisedTrainer(
        device=device,
        max_epochs=2,
        train_data_loader=training,
        network=net,
        optimizer=optimizer,
        loss_function=noted,
        train_handlers=[ValidationHandler(interval=1, validator=evaluator, epoch_level=True)],
    )
    trainer.run()
    return trainer.state.iteration


net.say(by_engine() if "engine" in sys.argv else by_hand())

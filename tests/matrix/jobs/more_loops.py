"""Loops that tests/hooks/jobs/loops.py does not have. Arguments name those to run, none = all."""

from facts import *
from torch.utils.data import DataLoader


def train(net, batches, optimizer=None, epochs=1):
    optimizer = optimizer or torch.optim.AdamW(net.parameters(), 1e-3)
    steps = 0
    for x, y in (batch for _ in range(epochs) for batch in batches):
        net.loss(x, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
    return steps


def map_dataset_workers():
    net = Net()
    return net, train(net, DataLoader(Data(), 4, num_workers=2, shuffle=True), epochs=2)


def map_dataset_spawn():
    net = Net()
    return net, train(net, DataLoader(Data(), 4, num_workers=1, multiprocessing_context="spawn"))


def map_dataset_forkserver():
    net = Net()
    return net, train(net, DataLoader(Data(), 4, num_workers=1, multiprocessing_context="forkserver"))


def iterable_dataset():
    net = Net()
    return net, train(net, DataLoader(Stream(), 4), epochs=2)


def iterable_dataset_workers():
    net = Net()
    return net, train(net, DataLoader(Stream(), 4, num_workers=2, persistent_workers=True))


def stateful_dataloader():
    from torchdata.stateful_dataloader import StatefulDataLoader

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    loader = StatefulDataLoader(Data(), 4, num_workers=1)
    iterator = iter(loader)
    steps = sum(train(net, [next(iterator)], optimizer) for _ in range(6))
    resumed = StatefulDataLoader(Data(), 4, num_workers=1)
    resumed.load_state_dict(loader.state_dict())
    return net, steps + train(net, resumed, optimizer)


def custom_loader():
    """A loader of the user's own, with a thread that reads ahead."""
    import queue
    import threading

    def batches():
        for at in range(0, 64, 4):
            pairs = [Data()[i] for i in range(at, at + 4)]
            yield torch.stack([x for x, _ in pairs]), torch.stack([y for _, y in pairs])

    def ahead(source):
        ready = queue.Queue(2)
        threading.Thread(target=lambda: [ready.put(b) for b in source] + [ready.put(None)], daemon=True).start()
        return iter(ready.get, None)

    net = Net()
    return net, train(net, ahead(batches()))


def no_loader():
    net = Net()
    x, y = torch.randn(16, 8), torch.randn(16, 1)
    return net, train(net, [(x, y)] * 16)


def validation_between_steps():
    """Every four steps a pass over held-out data; the training loader lives on meanwhile."""
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    held_out, steps = DataLoader(Data(12), 4), 0
    for _ in range(2):
        for x, y in DataLoader(Data(), 4):
            steps += train(net, [(x, y)], optimizer)
            if steps % 4 == 0:
                net.eval()
                with torch.inference_mode():
                    for a, b in held_out:
                        F.mse_loss(net(a), b)
                net.train()
    return net, steps


def validation_without_no_grad():
    """Evaluated with eval() alone: gradients are on, no backward follows."""
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    held_out, steps = DataLoader(Data(12), 4), 0
    for _ in range(3):
        steps += train(net, DataLoader(Data(), 4), optimizer)
        net.eval()
        for x, y in held_out:
            F.mse_loss(net(x), y)
        net.train()
    return net, steps


def validation_without_eval():
    """Under no_grad, the mode left at training."""
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    held_out, steps = DataLoader(Data(12), 4), 0
    for _ in range(3):
        steps += train(net, DataLoader(Data(), 4), optimizer)
        with torch.no_grad():
            for x, y in held_out:
                time.sleep(EVALUATION_S)
                net.slept += EVALUATION_S
                F.mse_loss(net(x), y)
    return net, steps


def hand_written_sgd():
    """No optimizer at all: each backward is a step, and the model is found after some of them."""
    net, steps = Net(), 0
    for _ in range(3):
        for x, y in DataLoader(Data(), 4):
            net.loss(x, y).backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.01 * p.grad
            net.zero_grad()
            steps += 1
    return net, steps


def grad_outside_of_backward():
    """Gradients by autograd.grad, handed to the optimizer."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    parameters, steps = list(net.parameters()), 0
    for x, y in DataLoader(Data(), 4):
        for p, g in zip(parameters, torch.autograd.grad(net.loss(x, y), parameters)):
            p.grad = g
        optimizer.step()
        steps += 1
    return net, steps


if __name__ == "__main__":
    for loop in [f for f in list(globals().values()) if getattr(f, "__module__", "") == "__main__" and f is not train]:
        if sys.argv[1:] and loop.__name__ not in sys.argv:
            continue
        try:
            torch.manual_seed(0)
            model, count = loop()
            model.say(count, key=loop.__name__)
        except ModuleNotFoundError:
            if sys.argv[1:]:
                raise

"""A detector's batches handed over by the worker as lists of small tensors.

What happens: a worker prepares images with their objects. The collate function keeps, as many detection examples do, a
list of targets: for each object a dictionary with a box, a mask and a label, each a tensor of its own. Every one of
these few hundred tensors travels in a shared memory file of its own, whose descriptor the training process asks from
the worker by a connection of its own; that happens within next(loader), in the training process itself.
Who causes it: collate_targets. The preparation of the samples is cheap, and the worker idles much of the time.
What is lost: the time of the hand-over in each step; the step waits for its batch although the worker has it ready.
Right advice: hand over few large tensors (boxes, masks, labels joined, and the index of the image); more workers or
cheaper augmentation help little, as the cost is per tensor and falls in the training process.
REPORT_FAULT=0: the same objects, joined into four tensors by the worker.
"""

import os
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LISTS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, IMAGES, SIDE, MASK, KINDS = 150, 16, 640, 64, 16, 8


class Scenes(Dataset):
    """Images with one to nine bright ellipses."""

    def __init__(self):
        draw = np.random.default_rng(3)
        self.images = draw.integers(0, 60, (IMAGES, 3, SIDE, SIDE), dtype=np.uint8)
        self.objects = []
        y, x = np.mgrid[0:MASK, 0:MASK]
        for image in self.images:
            objects = []
            for _ in range(draw.integers(2, 10)):
                kind, (top, left) = int(draw.integers(0, KINDS)), draw.integers(0, SIDE - MASK, 2)
                mask = (x - 7.5) ** 2 / draw.uniform(20, 56) + (y - 7.5) ** 2 / draw.uniform(20, 56) < 1
                image[kind % 3, top : top + MASK, left : left + MASK][mask] = 120 + 15 * kind
                objects.append(((top, left, top + MASK, left + MASK), mask, kind))
            self.objects.append(objects)

    def __len__(self):
        return IMAGES

    def __getitem__(self, index):
        image, flip = self.images[index], np.random.rand() < 0.5
        image = torch.from_numpy(np.ascontiguousarray(image[:, :, ::-1] if flip else image)).float().div_(255)
        targets = []
        for (top, left, bottom, right), mask, kind in self.objects[index]:
            if flip:
                left, right, mask = SIDE - right, SIDE - left, mask[:, ::-1]
            box = torch.tensor([top, left, bottom, right], dtype=torch.float32) / SIDE
            targets.append({"box": box, "mask": torch.from_numpy(mask.copy()).float(), "label": torch.tensor(kind)})
        return image, targets


def collate_targets(samples):
    images, targets = zip(*samples)
    return torch.stack(images), list(targets)


def join(targets):
    owner = torch.tensor([i for i, objects in enumerate(targets) for _ in objects])
    return owner, *(torch.stack([o[key] for objects in targets for o in objects]) for key in ("box", "mask", "label"))


def collate_joined(samples):
    images, targets = zip(*samples)
    return torch.stack(images), join(targets)


class Detector(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
        )  # fmt: skip
        self.shape = nn.Linear(4, MASK * MASK)
        self.head = nn.Sequential(nn.Linear(2 * width, 256), nn.ReLU(), nn.Linear(256, KINDS + MASK * MASK))

    def forward(self, images, owner, boxes):
        maps = self.trunk(images)
        rows = torch.arange(maps.shape[-1]) / maps.shape[-1]
        inside = (rows >= boxes[:, :1]) & (rows < boxes[:, 2:3])
        across = (rows >= boxes[:, 1:2]) & (rows < boxes[:, 3:])
        window = inside[:, :, None].float() * across[:, None, :].float()
        pooled = (maps[owner] * window[:, None]).sum((2, 3)) / window.sum((1, 2)).clamp(min=1)[:, None]
        return self.head(pooled).split([KINDS, MASK * MASK], 1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Detector()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = DataLoader(Scenes(), BATCH, shuffle=True, num_workers=1, persistent_workers=True, drop_last=True,
                        collate_fn=collate_targets if LISTS else collate_joined)  # fmt: skip
    waits, durations, step, start = [], [], 0, time.perf_counter()
    while step < STEPS:
        asked = time.perf_counter()
        for images, targets in loader:
            came = time.perf_counter()
            owner, boxes, masks, labels = join(targets) if LISTS else targets
            kinds, shapes = model(images, owner, boxes)
            loss = nn.functional.cross_entropy(kinds, labels)
            loss = loss + nn.functional.binary_cross_entropy_with_logits(shapes, masks.flatten(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            waits.append(came - asked)
            durations.append(time.perf_counter() - asked)
            if step % 40 == 0:
                print(f"step {step} loss {loss.item():.3f} objects {len(labels)}", flush=True)
            step, asked = step + 1, time.perf_counter()
            if step == STEPS:
                break
    loop = time.perf_counter() - start
    print(f"REPORT loop_s={loop:.2f} median_step_ms={1e3 * statistics.median(durations):.1f}")
    print(f"REPORT wait_for_batch_s={sum(waits):.2f} share={sum(waits) / loop:.3f} first_wait_s={waits[0]:.2f}")


if __name__ == "__main__":
    main()

"""A training on random images with timm's model, loader, optimizer, schedule, scaler, average and saver; prints every loss.

timm's own train.py is in none of its packages; this is its loop. Alone or under torchrun (DDP over gloo).
"""

from __future__ import annotations

import os
import tempfile
import warnings

import torch
import torch.distributed as dist
from PIL import Image
from timm.data import create_loader
from timm.loss import LabelSmoothingCrossEntropy
from timm.models import create_model
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, CheckpointSaver, ModelEmaV3, NativeScaler, accuracy, random_seed, reduce_tensor
from torch.nn.parallel import DistributedDataParallel

EPOCHS, IMAGES, BATCH = 2, 48, 8


def main() -> None:
    warnings.simplefilter("always")
    distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if distributed:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if distributed else 0
    random_seed(3, rank)
    model = create_model("test_resnet", num_classes=5, drop_path_rate=0.1)
    optimizer = create_optimizer_v2(model, opt="lamb", lr=2e-3, weight_decay=0.05)
    average = ModelEmaV3(model, decay=0.9)
    wrapped = DistributedDataParallel(model) if distributed else model
    data = Random()
    loader = create_loader(
        data,
        input_size=(3, 32, 32),
        batch_size=BATCH,
        is_training=True,
        use_prefetcher=False,
        num_workers=2,
        distributed=distributed,
    )
    check = create_loader(
        data,
        input_size=(3, 32, 32),
        batch_size=BATCH,
        is_training=False,
        use_prefetcher=False,
        num_workers=0,
        distributed=distributed,
    )
    schedule, epochs = create_scheduler_v2(
        optimizer, sched="cosine", num_epochs=EPOCHS, warmup_epochs=1, updates_per_epoch=len(loader)
    )
    scaler, loss_of = NativeScaler("cpu"), LabelSmoothingCrossEntropy(0.1)
    with tempfile.TemporaryDirectory() as folder:
        saver = CheckpointSaver(
            model=model,
            optimizer=optimizer,
            model_ema=average,
            checkpoint_dir=folder,
            recovery_dir=folder,
            max_history=2,
        )
        updates = 0
        for epoch in range(EPOCHS):
            wrapped.train()
            for images, labels in loader:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = loss_of(wrapped(images), labels)
                scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters(), create_graph=False)
                optimizer.zero_grad()
                average.update(model)
                updates += 1
                schedule.step_update(updates)
                if rank == 0:
                    print(
                        f"epoch {epoch} loss {loss.item():.9f} rate {optimizer.param_groups[0]['lr']:.9f}", flush=True
                    )
            top = validate(wrapped, check, distributed)
            schedule.step(epoch + 1, top)
            if rank == 0:
                best, _ = saver.save_checkpoint(epoch, metric=top)
                print(f"epoch {epoch} top-1 {top:.6f} best {best}", flush=True)
    weights = sum(p.double().sum().item() for p in average.module.parameters())
    if rank == 0:
        print(f"epochs {epochs} updates {updates} weights {weights:.9f}", flush=True)
    if distributed:
        dist.destroy_process_group()


class Random(torch.utils.data.Dataset):
    """Images of noise; the transform is the loader's to set."""

    transform = None

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int):  # type: ignore[no-untyped-def]
        noise = torch.randint(0, 256, (32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(index))
        image = Image.fromarray(noise.numpy())
        return (self.transform(image) if self.transform else image), index % 5


@torch.no_grad()
def validate(model: torch.nn.Module, loader: torch.utils.data.DataLoader, distributed: bool) -> float:
    model.eval()
    top = AverageMeter()
    for images, labels in loader:
        right = accuracy(model(images), labels, topk=(1,))[0]
        top.update(reduce_tensor(right, dist.get_world_size()).item() if distributed else right.item(), labels.size(0))
    return top.avg


if __name__ == "__main__":
    main()

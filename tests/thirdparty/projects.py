"""What `make thirdparty` runs: projects that train with torch, by name and version from the package index.

Chosen by file: what runs on a CPU, without a network and without a service. Never by a test's result: a test that fails
bare must fail in the same way under ``stepscope run``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Project:
    name: str  # in the package index
    version: str
    paths: tuple[str, ...] = ()  # files and folders with tests inside the source package; none = ``command``
    without: tuple[str, ...] = ()  # files below them that need a GPU, a network or a service
    command: tuple[str, ...] = ()  # a script instead of tests: its whole output is compared; {python}, {here}
    title: str = ""

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def key(self) -> str:
        return self.title or self.name


# Beside the projects themselves; what their tests import.
REQUIREMENTS = (
    "pytest",
    "parameterized",
    "expecttest",
    "scikit-learn",
    "pandas",
    "matplotlib",
    "hypothesis",
    "tqdm",
    "torchvision==0.29.2",
    "setuptools",
    "wheel",
)

_TWO_RANKS = ("{python}", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")

PROJECTS: tuple[Project, ...] = (
    Project(
        "pytorch-ignite",
        "0.5.5",
        paths=(
            "tests/ignite/base",
            "tests/ignite/engine",
            *(
                f"tests/ignite/handlers/test_{name}.py"
                for name in (
                    "checkpoint",
                    "early_stopping",
                    "ema_handler",
                    "handlers",
                    "lr_finder",
                    "param_scheduler",
                    "state_param_scheduler",
                    "terminate_on_nan",
                    "time_profilers",
                    "timing",
                    "tqdm_logger",
                )
            ),
        ),
        without=("tests/ignite/engine/test_deterministic.py",),
    ),  # minutes of loader workers
    Project(
        "accelerate",
        "1.15.0",
        paths=(
            "tests/test_accelerator.py",
            "tests/test_data_loader.py",
            "tests/test_grad_sync.py",
            "tests/test_hooks.py",
            "tests/test_optimizer.py",
            "tests/test_scheduler.py",
            "tests/test_kwargs_handlers.py",
            "tests/test_offload.py",
            "tests/test_compile.py",
        ),
    ),
    Project(
        "accelerate",
        "1.15.0",
        title="accelerate: test_script",
        command=(*_TWO_RANKS, "accelerate.test_utils.scripts.test_script"),
    ),
    Project(
        "accelerate",
        "1.15.0",
        title="accelerate: test_sync",
        command=(*_TWO_RANKS, "accelerate.test_utils.scripts.test_sync"),
    ),
    Project(
        "accelerate",
        "1.15.0",
        title="accelerate: test_ops",
        command=(*_TWO_RANKS, "accelerate.test_utils.scripts.test_ops"),
    ),
    Project(
        "skorch",
        "1.4.0",
        paths=(
            "skorch/tests/test_net.py",
            "skorch/tests/test_classifier.py",
            "skorch/tests/test_regressor.py",
            "skorch/tests/test_toy.py",
            "skorch/tests/callbacks/test_training.py",
            "skorch/tests/callbacks/test_lr_scheduler.py",
            "skorch/tests/callbacks/test_regularization.py",
        ),
    ),
    Project(
        "pytorch_optimizer",
        "4.1.0",
        paths=(
            "tests/test_base.py",
            "tests/test_gradients.py",
            "tests/test_lr_schedulers.py",
            "tests/test_wrapper_optimizers.py",
            "tests/optimizers",
        ),
    ),
    Project(
        "einops",
        "0.8.2",
        paths=("einops/tests/test_layers.py", "einops/tests/test_einsum.py", "einops/tests/test_other.py"),
    ),
    Project(
        "opacus",
        "1.6.0",
        paths=(
            "opacus/tests/dpdataloader_test.py",
            "opacus/tests/gradient_accumulation_test.py",
            "opacus/tests/grad_sample_hooks_test.py",
            "opacus/tests/module_validator_test.py",
            "opacus/tests/schedulers",
        ),
    ),
    Project(
        "timm",
        "1.0.31",
        paths=(
            "tests/test_optim.py",
            "tests/test_scheduler.py",
            "tests/test_utils.py",
            "tests/test_checkpoint_saver.py",
            "tests/test_task.py",
            "tests/test_scheduled_sampler.py",
        ),
    ),
    Project("timm", "1.0.31", title="timm: a training of its parts", command=("{python}", "{here}/timm_train.py")),
    Project(
        "timm",
        "1.0.31",
        title="timm: the same, two ranks",
        command=(
            "{python}",
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "{here}/timm_train.py",
        ),
    ),
)

"""What the matrix runs: launch commands, loops, frameworks. A case is a command, what it needs, and what must come out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

PHASES = frozenset({"forward", "backward", "optimizer"})
FETCHED = PHASES | {"input_wait"}


@dataclass(frozen=True)
class Case:
    """``command`` words: ``{python}`` stands for the interpreter, ``{jobs}`` and ``{hook_jobs}`` for the job folders."""

    name: str
    group: str  # launch, loop, framework, torch
    command: tuple[str, ...]
    phases: frozenset[str] = PHASES  # each must have time in the ledger of every rank
    ranks: int = 1
    attempts: int = 1
    steps_before: int = 0  # of earlier attempts, from which a run counts on
    needs: tuple[str, ...] = ()  # Python packages, or programs as "bin:NAME"; the first one's version is shown
    validation: bool | None = (
        True  # the job says how long it validated; None = it runs without gradients for other ends
    )
    bare: tuple[
        str, ...
    ] = ()  # runs this case and its kin at once, bare: one start of Python for all; () = as `command`
    quick: bool = False  # also part of `make test`
    env: dict[str, str] = field(default_factory=dict)
    torch: str = ""  # runs in the environment torch-VERSION beside the one under test; "" = there


LAUNCHED = "{jobs}/launched.py"
TWO = ("torchrun", "--standalone", "--nproc-per-node", "2")
# torch 2.15 keeps a launch's store over restarts: a rank may take its peer's old address and wait for ever.
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

LAUNCHES = [
    Case("python script", "launch", ("{python}", LAUNCHED), FETCHED, quick=True),
    Case("python -m", "launch", ("{python}", "-m", "launched", "workers=2"), FETCHED),
    Case("python, spawned workers", "launch", ("{python}", LAUNCHED, "workers=1", "method=spawn"), FETCHED),
    Case("python -s -B -u", "launch", ("{python}", "-s", "-B", "-u", LAUNCHED), FETCHED),
    Case("torchrun", "launch", (*TWO, LAUNCHED, "workers=1", "child=1"), FETCHED, ranks=2, quick=True),
    Case("torchrun -m", "launch", (*TWO, "-m", "launched"), FETCHED, ranks=2),
    Case(
        "torchrun, 4 ranks",
        "launch",
        ("torchrun", "--standalone", "--nproc-per-node", "4", LAUNCHED, "steps=6"),
        FETCHED,
        ranks=4,
    ),
    Case(
        "torchrun, elastic restart",
        "launch",
        (*TWO, "--max-restarts", "1", LAUNCHED, "fail=5"),
        FETCHED,
        ranks=2,
        attempts=2,
        steps_before=5,
        env=OWN_STORE,
    ),
    Case("shell script", "launch", ("{jobs}/launch.sh", "workers=1"), FETCHED, ranks=2, needs=("bin:torchrun",)),
    Case(
        "accelerate launch",
        "launch",
        (
            "accelerate",
            "launch",
            "--cpu",
            "--num_processes",
            "1",
            "--num_machines",
            "1",
            "--mixed_precision",
            "no",
            "--dynamo_backend",
            "no",
            LAUNCHED,
        ),
        FETCHED,
        needs=("accelerate",),
    ),
    Case(
        "deepspeed",
        "launch",
        ("deepspeed", "--num_gpus", "2", "--master_port", "29731", LAUNCHED),
        FETCHED,
        ranks=2,
        needs=("deepspeed",),
        env={"DS_ACCELERATOR": "cpu"},
    ),
    Case(
        "mpirun",
        "launch",
        (
            "mpirun",
            "--allow-run-as-root",
            "--oversubscribe",
            "-np",
            "2",
            "-x",
            "MASTER_ADDR=127.0.0.1",
            "-x",
            "MASTER_PORT=29732",
            "{python}",
            LAUNCHED,
        ),
        FETCHED,
        ranks=2,
        needs=("bin:mpirun",),
    ),
]


def hook_loop(name: str, phases: frozenset[str] = FETCHED, **more: object) -> Case:
    job = ("{python}", "{hook_jobs}/loops.py")
    return Case(name.replace("_", " "), "loop", (*job, name), phases, bare=job, **more)  # type: ignore[arg-type]


def more_loop(name: str, phases: frozenset[str] = FETCHED, **more: object) -> Case:
    job = ("{python}", "{jobs}/more_loops.py")
    return Case(name.replace("_", " "), "loop", (*job, name), phases, bare=job, **more)  # type: ignore[arg-type]


def parallel(name: str, part: str, ranks: int, kin: tuple[str, ...] = (), job: str = "parallel.py") -> Case:
    launch = ("torchrun", "--standalone", "--nproc-per-node", str(ranks), "{hook_jobs}/" + job)
    return Case(name, "loop", (*launch, part), PHASES, ranks=ranks, bare=(*launch, *(kin or (part,))))


COMPILED = ("model", "in_place", "compiled_ddp", "whole_step", "optimizer")
ON_A_MESH = ("fsdp", "tp", "pp")
DDP_LOOPS = ("no_sync", "straggler")


def compiled(name: str, case: str, phases: frozenset[str] = PHASES) -> Case:
    job = ("{python}", "{hook_jobs}/compiled.py")
    return Case(f"torch.compile of {name}", "loop", (*job, case), phases | {"compile"}, bare=(*job, *COMPILED))


LOOPS = [
    hook_loop("plain"),
    hook_loop("accumulation", quick=True),
    parallel("DDP no_sync accumulation", "no_sync", 2, DDP_LOOPS, job="ddp.py"),
    parallel("DDP with a late rank", "straggler", 2, DDP_LOOPS, job="ddp.py"),
    hook_loop("amp_skipped", quick=True),
    hook_loop("gan"),
    hook_loop("critic_five_to_one"),
    hook_loop("two_optimizers_and_validation"),
    hook_loop("lbfgs"),
    hook_loop("optimizer_in_backward"),
    hook_loop("sub_groups"),
    more_loop("hand_written_sgd", FETCHED - {"optimizer"}),
    hook_loop("rollouts", validation=None),
    hook_loop("checkpointed", FETCHED),
    hook_loop("functional", FETCHED - {"forward", "backward"}),
    hook_loop("double_backward"),
    hook_loop("scheduled"),
    more_loop("grad_outside_of_backward"),
    more_loop("validation_between_steps", quick=True),
    more_loop("validation_without_no_grad"),
    more_loop("validation_without_eval"),
    more_loop("map_dataset_workers"),
    more_loop("map_dataset_spawn"),
    more_loop("map_dataset_forkserver"),
    more_loop("iterable_dataset"),
    more_loop("iterable_dataset_workers"),
    more_loop("stateful_dataloader", needs=("torchdata",)),
    more_loop("custom_loader", PHASES),
    more_loop("no_loader", PHASES),
    compiled("the model", "model"),
    compiled("the model in place", "in_place"),
    compiled("DDP", "compiled_ddp"),
    compiled("the step function", "whole_step", PHASES - {"forward"}),
    compiled("the optimizer", "optimizer"),
    parallel("FSDP1", "fsdp1", 2),
    parallel("FSDP2 on a mesh", "fsdp", 4, ON_A_MESH),
    parallel("tensor parallel on a mesh", "tp", 4, ON_A_MESH),
    parallel("pipeline on a mesh", "pp", 4, ON_A_MESH),
]

ZERO = ("{python}", "{jobs}/deepspeed_zero.py")
FRAMEWORKS = [
    Case(
        "HF Trainer",
        "framework",
        ("{python}", "{jobs}/hf_trainer.py"),
        FETCHED | {"checkpoint"},
        needs=("transformers", "accelerate"),
    ),
    Case(
        "HF Trainer, DDP",
        "framework",
        (*TWO, "{jobs}/hf_trainer.py"),
        FETCHED,
        ranks=2,
        needs=("transformers", "accelerate"),
    ),
    Case("Lightning", "framework", ("{python}", "{jobs}/lightning_fit.py", "lightning"), FETCHED, needs=("lightning",)),
    Case(
        "Lightning, manual optimization",
        "framework",
        ("{python}", "{jobs}/lightning_fit.py", "lightning", "manual"),
        FETCHED,
        needs=("lightning",),
    ),
    Case(
        "pytorch_lightning",
        "framework",
        ("{python}", "{jobs}/lightning_fit.py", "pytorch_lightning"),
        FETCHED,
        needs=("pytorch_lightning",),
    ),
    Case("Accelerate", "framework", ("{python}", "{jobs}/accelerate_loop.py"), FETCHED, needs=("accelerate",)),
    Case("Accelerate, DDP", "framework", (*TWO, "{jobs}/accelerate_loop.py"), FETCHED, ranks=2, needs=("accelerate",)),
    Case(
        "Accelerate, FSDP2",
        "framework",
        (*TWO, "{jobs}/accelerate_loop.py", "fsdp"),
        FETCHED,
        ranks=2,
        needs=("accelerate",),
    ),
    *(Case(f"DeepSpeed ZeRO {n}", "framework", (*ZERO, str(n)), FETCHED, needs=("deepspeed",)) for n in range(4)),
    Case(
        "DeepSpeed ZeRO 2, 2 ranks",
        "framework",
        (*TWO, "{jobs}/deepspeed_zero.py", "2"),
        FETCHED,
        ranks=2,
        needs=("deepspeed",),
    ),
    Case("Ray Train", "framework", ("{python}", "{jobs}/ray_train.py"), FETCHED, ranks=2, needs=("ray",)),
    Case("MONAI", "framework", ("{python}", "{jobs}/monai_fit.py"), FETCHED, needs=("monai",)),
    Case(
        "MONAI engines", "framework", ("{python}", "{jobs}/monai_fit.py", "engine"), FETCHED, needs=("monai", "ignite")
    ),
]


def older(torch: str) -> list[Case]:
    """A plain and a DDP loop of this torch, and what its hooks find in other places than those of the newest."""
    made = [
        Case("plain loop", "torch", ("{python}", LAUNCHED, "workers=1"), FETCHED),
        Case("DDP loop", "torch", (*TWO, LAUNCHED), FETCHED, ranks=2),
        Case(
            "elastic restart",
            "torch",
            (*TWO, "--max-restarts", "1", LAUNCHED, "fail=5"),
            FETCHED,
            ranks=2,
            attempts=2,
            steps_before=5,
            env=OWN_STORE,
        ),
        hook_loop("amp_skipped"),
        parallel("DDP no_sync accumulation", "no_sync", 2, DDP_LOOPS, job="ddp.py"),
        parallel("FSDP1", "fsdp1", 2),
    ]
    return [replace(c, name=f"{c.name}, torch {torch}", group="torch", torch=torch) for c in made]


OLDER_TORCHES = ("2.4.1", "2.8.0")  # tools/setup_matrix.sh makes an environment for each
CASES = LAUNCHES + LOOPS + FRAMEWORKS + [c for version in OLDER_TORCHES for c in older(version)]

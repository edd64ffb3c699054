"""Programs that are never refused: each was once wrong without a word, or is what most users do."""

import sys
from dataclasses import replace
from typing import Any

import torch
from training_programs import BETWEEN, WRITES, Layer, Program, Turn, judge

PLAIN = (Turn(), Turn(), Turn())
FOUR = (Layer(kind="linear"), Layer(kind="norm"), Layer(kind="two"), Layer())
AHEAD = (
    Layer("linear", "to", ahead=True),
    *(Layer(through=name, ahead=True) for name in ("contiguous", "float", "to")),
)

CORE = {
    "plain": Program(FOUR, PLAIN),
    "all_fits": Program(FOUR, PLAIN, budget=1000),
    "file": Program(FOUR, PLAIN, file=True),
    "verify": Program(FOUR, PLAIN, verify=True, budget=60),
    "tied": Program(FOUR, PLAIN, tied=True),
    "accumulation_and_clipping": Program(FOUR, (Turn(batches=3, clip=True),) * 3),
    "checkpointing": Program((Layer("linear", recompute="nonreentrant"), Layer("two", recompute="reentrant")), PLAIN),
    "autocast": Program(FOUR, PLAIN, precision="autocast", budget=60),
    "bf16": Program(FOUR, PLAIN, precision="bf16", budget=60),
    "frozen": Program((Layer("linear", frozen=True), Layer("norm"), Layer("linear", frozen=True), Layer()), PLAIN),
    "returns_its_argument": Program(AHEAD, PLAIN, budget=60),
    "returns_its_argument_where_all_fits": Program(AHEAD, PLAIN, budget=130),
    "returns_its_argument_resident": Program(AHEAD, PLAIN, budget=1000),
    "optimizer_with_a_norm_over_all": Program(FOUR, PLAIN, optimizer="norm"),
    "optimizer_that_draws": Program(FOUR, PLAIN, optimizer="noise"),
    "fused_momentum_that_some_begin_later": Program(
        FOUR,
        (Turn(evaluate="backward_fails"), Turn(between="freeze"), Turn(between="freeze"), Turn()),
        optimizer="fused_sgd",
    ),
    "optimizer_that_counts": Program(FOUR, PLAIN, optimizer="count"),
    "optimizer_that_assigns": Program(FOUR, PLAIN, optimizer="assigning"),
    "optimizer_that_assigns_what_is_filed": Program(FOUR, PLAIN, optimizer="setting", file=True),
    "optimizer_with_a_closure": Program(FOUR, PLAIN, optimizer="LBFGS"),
    "casts_shared_over_forwards": Program(FOUR, (Turn(), Turn(forwards=2), Turn(forwards=2)), precision="autocast"),
    "casts_shared_in_a_loop": Program((Layer(times=3), Layer("linear")), PLAIN, precision="autocast", growing=True),
    "one_autocast_for_all_steps": Program(FOUR, PLAIN, precision="autocast_all"),
    "autocast_of_every_kind_of_use": Program(
        (Layer(also="summed"), Layer("linear", also="looked_up"), Layer(also="cast_again"), Layer("two", also="whole")),
        PLAIN,
        precision="autocast",
        budget=100,
    ),
    "autocast_with_checkpointing": Program(
        (Layer(recompute="nonreentrant"), Layer("two", recompute="reentrant"), Layer("norm", recompute="nonreentrant")),
        (Turn(batches=2),) * 4,
        precision="autocast",
        budget=60,
    ),
    "autocast_with_evaluation_in_between": Program(
        FOUR,
        (Turn(evaluate="no_grad", look=True), Turn(evaluate="without_autocast"), Turn(evaluate="inference"), Turn()),
        precision="autocast",
    ),
    "autocast_to_fp16_with_a_scaler": Program(FOUR, (Turn(batches=2, clip=True),) * 4, precision="autocast_scaled"),
    "autocast_around_the_step": Program(FOUR, (Turn(backward_inside=True),) * 4, precision="autocast_step"),
    "two_autocasts_in_one_backward": Program(FOUR, (Turn(forwards=2, apart=True),) * 4, precision="autocast"),
    "written_before_the_backward_of_casts": Program(
        FOUR, (Turn(), Turn(write_before_backward="data"), Turn(write_before_backward="in_place")), precision="autocast"
    ),
    "assigned_before_the_backward_of_casts": Program(
        FOUR, (Turn(), Turn(write_before_backward="assigned"), Turn()), precision="autocast"
    ),
    "inference_mode": Program(FOUR, (Turn(evaluate="inference"),) * 3),
    "part_without_gradients": Program(FOUR, (Turn(evaluate="part"), Turn(evaluate="part_inference"), Turn())),
    "view_kept_over_steps": Program(FOUR, PLAIN, alias="detach"),
    "view_kept_where_all_fits": Program(FOUR, PLAIN, alias="detach", budget=1000),
    "view_kept_of_what_is_filed": Program(FOUR, PLAIN, alias="data", file=True),
    "view_taken_before_wrapping": Program(FOUR, PLAIN, alias="before"),
    "weight_in_an_array": Program(FOUR, PLAIN, alias="array"),
    "weight_in_an_array_where_all_fits": Program(FOUR, PLAIN, alias="array", budget=1000),
    "gradient_in_an_array": Program(FOUR, (Turn(batches=2, between="gradient_array", set_to_none=False),) * 3),
    "frozen_while_the_graph_is_made": Program(FOUR, (Turn(frozen_in="forward"),) * 3),
    "frozen_while_the_graph_is_used": Program(FOUR, (Turn(frozen_in="backward"),) * 3),
    "second_backward_that_begins_where_the_first_ended": Program(
        (Layer(also="whole"), Layer()),
        (Turn(), Turn(), Turn(twice=True, frozen_in="forward")),
        precision="autocast",
        alias="before",
        budget=300,
    ),
    "parameters_in_one_buffer": Program(FOUR, PLAIN, alias="one_buffer"),
    **{
        f"recomputed_after_{write}_within_autocast": Program(
            (Layer(recompute="reentrant"), Layer()), (Turn(write_before_backward=write),) * 2, precision="autocast_all"
        )
        for write in ("data", "numpy")
    },
    "data_assigned_and_held": Program(FOUR, (Turn(between="assign_held"), Turn(between="write_held"), Turn())),
    "own_data_swapped_in_and_out": Program(FOUR, (Turn(between="swap_views"),) * 3),
    "held_gradient_read_after_backward": Program(
        FOUR, (Turn(between="hold_gradient", set_to_none=False),) * 3 + (Turn(read_held=True),)
    ),
    "gradients_zeroed_by_hand": Program(FOUR, (Turn(zero="detach"), Turn(zero="delete"), Turn())),
    "forward_that_is_interrupted": Program(FOUR, (Turn(), Turn(evaluate="interrupted"), Turn())),
    "array_kept": Program(FOUR, PLAIN, alias="numpy", budget=100),
    "written_by_data": Program(FOUR, (Turn(write="data"),) * 3, budget=100),
    "written_by_numpy": Program(FOUR, (Turn(write="numpy"),) * 3, budget=100),
    "weight_given_to_checkpointing": Program((Layer(ahead=True, recompute="nonreentrant"),) * 2, PLAIN, file=True),
    "saved_tensors_rounded_by_others": Program(FOUR, PLAIN, hook="rounding"),
    "gradient_hook": Program(FOUR, PLAIN, hook="parameter"),
    "gradient_hook_under_autocast": Program(FOUR, (Turn(),) * 4, hook="parameter", precision="autocast", budget=60),
    "hook_on_landed_gradients": Program(FOUR, (Turn(batches=2),) * 4, hook="landed"),
    "weights_written_within_backward": Program(FOUR, (Turn(),) * 4, hook="landed_write"),
    "added_to_data": Program(FOUR, (Turn(write="data_added"),) * 3),
    "initialised_anew": Program(FOUR, (Turn(write="recorded_init"),) * 3),
    "functions_transformed": Program(
        FOUR, (Turn(evaluate="functional"), Turn(evaluate="transformed"), Turn()), file=True
    ),
    "shallow_copy": Program(FOUR, (Turn(evaluate="shallow_copy"),) * 3),
    "forward_that_fails": Program(FOUR, (Turn(evaluate="fails"),) * 3),
    "frozen_midway": Program(FOUR, (Turn(between="freeze"),) * 4),
    "gradients_asked_for_of_what_is_recomputed": Program(
        (Layer(recompute="nonreentrant"), Layer("linear", recompute="nonreentrant"), Layer(), Layer()),
        (Turn(asked=True),) * 3,
        file=True,
    ),
    "low_rank_adapters": Program((Layer("adapter"), Layer("block"), Layer("experts"), Layer("own_function")), PLAIN),
    "recomputed_twice_in_one_backward": Program(
        (Layer(through="normalised", recompute="nonreentrant"), Layer()),
        (Turn(forwards=2), Turn(forwards=2)),
        budget=100,
    ),
}


def _late(turn: Turn, **options: Any) -> Program:
    """Return a loop whose first step makes the state, and whose others are still to come when the loop goes on."""
    return Program(FOUR, (Turn(), turn, turn, Turn()), late=True, **options)


def _early(**turn: Any) -> Program:
    """Return a loop whose updates are computed early, where one turn is another one, and all are plain after it."""
    return Program(FOUR, (Turn(), Turn(), Turn(**turn), Turn(**turn), Turn()), late=False)


LATE = {
    **{f"late_{name}": _late(Turn(between=name)) for name in BETWEEN},
    **{f"late_{name}_filed": _late(Turn(between=name), file=True) for name in BETWEEN if "held" not in name},
    **{f"late_write_{name}": _late(Turn(write=name), budget=100) for name in WRITES},
    "late_held_gradient_written": _late(Turn(hold="hold_gradient", between="write_held")),
    "late_held_gradient_kept": _late(Turn(hold="hold_gradient", between="write_held", set_to_none=False)),
    "late_held_state_written": _late(Turn(hold="hold_state", between="write_held")),
    "late_held_view_written": _late(Turn(between="write_held"), alias="detach"),
    "held_state_dict_of_what_was_loaded": Program(
        FOUR, (Turn(between="reload_state"), Turn(hold="hold_state_dict"), Turn(), Turn()), file="state"
    ),
    "late_held_state_dict": _late(Turn(hold="hold_state_dict")),
    "late_rate_in_place": _late(Turn(between="rate_in_place"), rate="tensor"),
    "late_rate_in_place_fused": _late(Turn(between="rate_in_place"), rate="tensor", optimizer="fused"),
    "late_scheduler": _late(Turn(), scheduler="step"),
    "late_scaler": _late(Turn(), scaler=True),
    "late_scaler_fused": _late(Turn(), scaler=True, optimizer="fused"),
    "late_scaler_clipping": _late(Turn(clip=True), scaler=True, optimizer="fused"),
    "late_overflow": _late(Turn(overflow=True), scaler=True),
    "late_overflow_fused": _late(Turn(overflow=True), scaler=True, optimizer="fused"),
    "late_zeros": _late(Turn(set_to_none=False)),
    "late_zeros_by_model": _late(Turn(set_to_none=False, zero_by_model=True)),
    "late_none_by_model": _late(Turn(zero_by_model=True)),
    "late_average": _late(Turn(), average="lerp"),
    "late_evaluation": _late(Turn(evaluate="no_grad")),
    "late_no_forward": _late(Turn(evaluate="weights")),
    "late_unwrapped": _late(Turn(), leave_after=1),
    "late_unwrapped_filed": _late(Turn(), leave_after=2, file=True),
    "late_unwrapped_with_a_held_gradient": Program(
        FOUR, (Turn(set_to_none=False, hold="hold_gradient"), Turn(set_to_none=False), Turn()), leave_after=1
    ),
    "held_gradient_where_all_fits": Program(
        FOUR, (Turn(set_to_none=False, hold="hold_gradient"), Turn(set_to_none=False), Turn()), budget=1000
    ),
    "held_state_where_all_fits": _late(Turn(between="hold_state"), budget=1000),
    "late_autocast_over_steps": _late(Turn(), precision="autocast_all"),
    "late_without_state": _late(Turn(), optimizer="SGD"),
}
# What user code does between backward and step(), in a loop whose updates are computed early.
EARLY = (
    {f"early_{name}": _early(hold=name) for name in BETWEEN}
    | {f"early_written_{name}": _early(write_before_step=name) for name in WRITES}
    | {
        "early_clipping": _early(clip=True),
        "early_twice": _early(twice=True),
        "early_accumulated": _early(batches=2),
        "early_skipped": _early(skip=True),
        "early_closure": _early(closure=True),
        "early_overflow": replace(_early(overflow=True), scaler=True, optimizer="fused"),
        "early_rate_in_place": replace(_early(hold="rate_in_place"), rate="tensor"),
        "early_autocast": replace(_early(), precision="autocast"),
        "early_verified": replace(_early(), verify=True),
        "early_unwrapped": replace(_early(), leave_after=2),
    }
)
RAISES = {
    "backward_after_step": Program(FOUR, (Turn(step_twice=True),)),
    "backward_after_step_recomputed": Program((Layer(recompute="nonreentrant"), Layer()), (Turn(step_twice=True),)),
    "written_before_backward": Program(FOUR, (Turn(), Turn(write_before_backward="in_place"))),
    "activation_written_before_backward": Program(FOUR, (Turn(), Turn(spoil=True))),
}

LATE_RAISES = {"backward_after_a_late_step": Program(FOUR, (Turn(), Turn(), Turn(step_twice=True)))}

REFUSED = {
    "written_in_a_forward_that_is_checked": Program((Layer("renormed"), Layer()), (Turn(),), verify=True, budget=100),
    "weight_given_to_checkpointing_with_old_casts": Program(
        (Layer(ahead=True, recompute="nonreentrant"),), (Turn(), Turn()), precision="autocast_all"
    ),
}


def main() -> None:
    """Print what becomes of each."""
    torch.set_num_threads(1)
    for name, program in {**CORE, **LATE, **EARLY, **RAISES, **LATE_RAISES, **REFUSED}.items():
        sys.stdout.write(f"{name:<40} {judge(program).splitlines()[0][:90]}\n")


if __name__ == "__main__":
    main()

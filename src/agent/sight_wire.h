// How a node's sight (node_sight.h) lies in a frame; `A` is WireOut or WireIn (wire_words.h).
#pragma once

#include <string>

#include "agent/node_sight.h"
#include "agent/wire_words.h"
#include "diagnose/code_lines.h"

namespace stepscope::sight_wire {

inline constexpr size_t kMostText = 4096, kMostName = 256, kMostItems = 4096;

// Words of a newer stepscope stay as they are.
template <class A, class W>
void word(A& wire, W& value) {
  std::string text(value.str());
  wire.text(text, kMostName);
  if constexpr (!A::kWrites) value = W::parsed(text);
}

template <class A>
void finding(A& wire, Finding& f) {
  auto& [id, kind, severity, job_scope, of_seen, ranks, victims, phase, cause, explained_by, pattern, first_step,
         last_step, detected_step, cost_share, cost_seconds, saves, confidence, coverage, clock, section, title, action,
         evidence] = f;
  word(wire, kind);
  wire.word(severity, 3);
  wire.flag(job_scope);
  wire.flag(of_seen);
  for (std::vector<int>* list : {&ranks, &victims}) wire.list(*list, kMostItems, [&](int& rank) { wire.num(rank); });
  for (std::string* text : {&id, &phase, &explained_by, &pattern, &clock, &title, &action}) wire.text(*text, kMostText);
  word(wire, cause);
  word(wire, section);
  for (int64_t* step : {&first_step, &last_step, &detected_step}) wire.num(*step);
  for (double* share : {&cost_share, &cost_seconds, &confidence, &coverage}) wire.number(*share);
  wire.maybe(saves, [&](Saving& saving) {
    auto& [share, low, high, caveat] = saving;
    wire.number(share);
    for (std::optional<double>* bound : {&low, &high}) wire.maybe(*bound, [&](double& value) { wire.number(value); });
    wire.text(caveat, kMostText);
  });
  wire.list(evidence, kMostItems, [&](Evidence& fact) {
    auto& [name, rank, value, others_median, text] = fact;
    wire.text(name, kMostName);
    wire.maybe(rank, [&](int& number) { wire.num(number); });
    for (std::optional<double>* figure : {&value, &others_median})
      wire.maybe(*figure, [&](double& number) { wire.number(number); });
    wire.text(text, kMostText);
  });
}

template <class A>
void host(A& wire, HostSight& sight) {
  wire.list(sight.findings, HostSight::kMostFindings, [&](Finding& f) { finding(wire, f); });
  wire.list(sight.uses, HostSight::kMostRanks, [&](ProcessUse& use) {
    auto& [rank, cpu_share, rss_peak_bytes, uss_peak_bytes] = use;
    wire.num(rank);
    for (std::optional<double>* figure : {&cpu_share, &rss_peak_bytes, &uss_peak_bytes})
      wire.maybe(*figure, [&](double& number) { wire.number(number); });
  });
  table(wire, sight.rooms, HostSight::kMostRanks, [&](int& rank, DeviceRoom& room) {
    auto& [capacity_bytes, own_bytes, others, other_ranks_bytes] = room;
    wire.num(rank);
    for (double* bytes : {&capacity_bytes, &own_bytes, &other_ranks_bytes}) wire.number(*bytes);
    wire.list(others, HostSight::kMostTenants, [&](DeviceTenant& tenant) {
      wire.num(tenant.pid);
      wire.number(tenant.bytes);
    });
  });
}

template <class A>
void line(A& wire, CodeLine& at) {
  wire.num(at.line);
  wire.text(at.function, kMostText);
  wire.text(at.file, kMostText);
}

template <class A>
void place(A& wire, PlaceInGroup& at) {
  wire.num(at.issued);
  wire.num(at.size);
  std::vector<IssuedOp> newest(at.newest.begin(), at.newest.end());
  if (newest.size() > kMostOps) newest.erase(newest.begin(), newest.end() - kMostOps);
  wire.list(newest, kMostOps, [&](IssuedOp& op) {
    wire.num(op.sequence);
    wire.num(op.bytes);
    wire.num(op.op);
    wire.num(op.time_ns);
    wire.num(op.step_ends);
    wire.flag(op.in_backward);
    wire.num(op.what);
    wire.num(op.after);
  });
  if constexpr (!A::kWrites) at.newest.assign(newest.begin(), newest.end());
}

template <class A>
void op_turns(A& wire, OpTurns& turns) {
  OpTurns::Turns all = turns.all();
  bool complete = turns.complete();
  table(wire, all, OpTurns::kMost, [&](std::pair<uint64_t, uint64_t>& turn, OpTurns::Times& times) {
    wire.num(turn.first);
    wire.num(turn.second);
    wire.num(times.first_ns);
    wire.num(times.second_ns);
  });
  wire.flag(complete);
  if constexpr (!A::kWrites) turns = OpTurns::of(std::move(all), complete);
}

template <class A>
void rank_standing(A& wire, RankStanding& r) {
  auto& [rank, ended, clean, leaving, exit_signal, exit_code, exception, steps, silent_s, patience_s, timeout_s, phase,
         in_init, joined, groups, turns, device, data_ended, data_seen, awaits, stuck_workers, state, wait_channel,
         cpu_share, stack, no_stack] = r;
  for (int* number : {&rank, &exit_signal, &exit_code}) wire.num(*number);
  for (bool* bit : {&ended, &clean, &leaving, &in_init, &joined, &data_ended, &data_seen}) wire.flag(*bit);
  for (std::string* text : {&exception, &wait_channel, &no_stack}) wire.text(*text, kMostText);
  wire.num(steps);
  for (double* seconds : {&silent_s, &patience_s, &timeout_s}) wire.number(*seconds);
  wire.word(phase, kCategoryCount);
  wire.num(state);
  wire.maybe(cpu_share, [&](double& share) { wire.number(share); });
  table(wire, groups, kMostStandingGroups, [&](uint64_t& id, PlaceInGroup& at) {
    wire.num(id);
    place(wire, at);
  });
  op_turns(wire, turns);
  wire.maybe(device, [&](DevicePlace& at) {
    wire.num(at.step);
    wire.num(at.boundary);
    wire.num(at.what);
    wire.num(at.issued_ns);
    wire.num(at.steps_ago);
    wire.flag(at.pending);
  });
  wire.list(stuck_workers, kMostItems, [&](StuckWorker& stuck) {
    wire.num(stuck.pid);
    wire.num(stuck.worker);
    wire.text(stuck.wait_channel, kMostText);
    wire.number(stuck.stands_s);
  });
  wire.maybe(awaits, [&](AwaitedOp& op) {
    wire.num(op.group);
    wire.num(op.sequence);
    wire.num(op.peer);
    wire.flag(op.sends);
    wire.num(op.since_ns);
  });
  wire.maybe(stack, [&](ThreadStack& told) {
    wire.list(told.frames, kMostStackFrames, [&](CodeLine& at) { line(wire, at); });
    wire.flag(told.holds_gil);
    wire.flag(told.in_interpreter);
    wire.text(told.module, kMostName);
  });
}

template <class A>
void standing(A& wire, JobStanding& job) {
  auto& [world, run_s, ranks, groups] = job;
  wire.num(world);
  wire.number(run_s);
  wire.list(ranks, kMostStandingRanks, [&](RankStanding& r) { rank_standing(wire, r); });
  table(wire, groups, kMostStandingGroups, [&](uint64_t& id, JobStanding::Group& group) {
    wire.num(id);
    wire.text(group.name, kMostName);
    wire.list(group.ranks, size_t{1} << 20, [&](int& rank) { wire.num(rank); });
  });
}

template <class A>
void code(A& wire, CodeSample& sample) {
  auto& [phase, stalled, stay_ms, beside, holds_gil, in_interpreter, module, program, callee, in_logging,
         in_recurrent] = sample;
  wire.word(phase, kCategoryCount);
  for (bool* bit : {&stalled, &beside, &holds_gil, &in_interpreter, &in_logging, &in_recurrent}) wire.flag(*bit);
  wire.number(stay_ms);
  wire.text(module, kMostName);
  wire.list(program, CodeSample::kMostLines, [&](CodeLine& at) { line(wire, at); });
  line(wire, callee);
}

}  // namespace stepscope::sight_wire

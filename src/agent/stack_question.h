// One question to a rank, "where are you?", and its answer (blackbox::StackBox). Who asks, how often and why is for
// stack_asker.h (a job that stands still) and line_sampler.h (time without a name). They number their questions apart,
// so that neither takes the other's answer.
//
// Never waits. Cost: three small files and a system call; the rank's part takes 0.1 ms.
#pragma once

#include <cstdint>
#include <string>

#include "agent/rank_tail.h"
#include "diagnose/standing.h"

namespace stepscope {

inline constexpr uint16_t kLineRequests = 0x8000;  // bit of the numbers of line_sampler.h

// "" = sent, the answer comes under this number; else why not. Only a process that catches the signal is sent one: it
// would end another. None that sleeps for a length of time in native code, where the kernel tells: it would wake up.
// `thread`: 0 = the one that trains.
std::string ask_for_stack(const RankTail& tail, uint16_t request, uint32_t thread = 0);
uint32_t training_thread(const RankTail& tail);

std::vector<CodeLine> frames_of(const blackbox::StackReading& reading);

// Of the interpreter itself, by the name of the mapped file: Python code runs.
bool is_interpreter(const std::string& module);

}  // namespace stepscope

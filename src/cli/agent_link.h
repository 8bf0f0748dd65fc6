// The launcher's end of the agent: starts it, tells it what happens, starts it once more when it dies, and fetches the
// summary. Whatever goes wrong with the agent is stated in one line on stderr and costs the training nothing.
// One thread. finish() waits, everything else returns at once.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent_config.h"
#include "agent/control_channel.h"
#include "base/subprocess.h"

namespace stepscope {

class AgentLink {
 public:
  // `binary`: our own executable. The agent gets its own session, so that no key press and no group signal reaches it.
  AgentLink(std::string binary, AgentConfig config, SignalState signals);
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  // Who takes our lines while the terminal is covered: true = taken. Asked first for each.
  void say_through(std::function<bool(const std::string&)> taker) { taker_ = std::move(taker); }

  void start(pid_t child);
  int fd() const { return channel_ ? channel_->fd() : -1; }  // readable when the agent has something to say

  void on_readable();            // prints notices; notices the agent's death
  void signal_seen(int signal);  // the job was told to stop
  // The command has ended: waits for the verdict (bounded), prints it to stderr, waits until the agent is done.
  void finish(int wait_status);

 private:
  bool spawn_agent();
  void replay_state();
  void on_agent_death();
  void handle(const std::vector<Frame>& frames);
  bool dead() const { return !channel_; }
  void give_up(const std::string& why);

  void tell(const std::string& line);

  std::function<bool(const std::string&)> taker_;
  std::string binary_;
  AgentConfig config_;
  SignalState signals_;
  std::optional<ControlChannel> channel_;
  pid_t agent_ = -1, child_ = -1;
  int signal_ = 0;
  std::optional<int> ended_;
  bool summary_printed_ = false, done_ = false, given_up_ = false;
};

// One line on stderr, "stepscope: …". Never fails loudly.
void say(const std::string& line);

}  // namespace stepscope

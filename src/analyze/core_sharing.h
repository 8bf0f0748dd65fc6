// Which ranks run on one host, and so share its cores. A plain value.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyze/host_load.h"

namespace stepscope {

struct CoreSharing {
  struct Host {
    std::vector<int> ranks;  // ascending
    HostLoad load;
  };
  std::vector<Host> hosts;
  std::map<int, size_t> host_of;  // index into hosts, by rank; a rank that is not in it shares with nobody

  // By how much of its own time, at most, other programs on its host may slow a rank down.
  double slowdown_by_others(int rank) const {
    const auto host = host_of.find(rank);
    if (host == host_of.end()) return 0;
    return hosts[host->second].load.most_slowdown_by_others(static_cast<int>(hosts[host->second].ranks.size()));
  }

  void add(int rank, size_t host) {
    host_of[rank] = host;
    hosts[host].ranks.push_back(rank);
  }
};

}  // namespace stepscope

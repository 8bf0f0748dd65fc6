// What rank processes and agent leave for each other in the run's shared-memory folder, so that the nodes of a job find
// its aggregator (python/stepscope/hooks/nodes.py is the other side). Small JSON files, 0600, written whole:
//
//   aggregator.wish   rank 0 → its agent: be the aggregator; where to listen, and the host that other nodes are told
//   aggregator.offer  agent → rank 0, for the job's store: where the aggregator is, and its secret
//   aggregator.found  a rank of another node → its agent: the offer, as the store had it
//
// The offer comes by the store, which anybody in the job may write: bounded, checked, refused with one line.
#pragma once

#include <cstdint>
#include <string>

#include "agent/node_link.h"
#include "base/result.h"

namespace stepscope {

inline constexpr const char* kWishFile = "aggregator.wish";
inline constexpr const char* kOfferFile = "aggregator.offer";
inline constexpr const char* kFoundFile = "aggregator.found";
inline constexpr size_t kMaxNoteBytes = 2048;

struct AggregatorWish {
  std::string listen, tell;  // listen: numeric
};

struct AggregatorOffer {
  AggregatorPlace place;  // secret "": every node has it from a file
  std::string node;       // host name of the aggregating node
  std::string run_dir;    // of the run over there
};

Result<AggregatorWish> read_wish(const std::string& text);
Result<AggregatorOffer> read_offer(const std::string& text);
std::string write_offer(const AggregatorOffer& offer);

// Secrets are 16 to 256 letters, digits, - or _.
bool is_secret(std::string_view text);
// "node-0:8800", "[::1]:8800".
Result<AggregatorPlace> parse_place(const std::string& text);
std::string place_text(const AggregatorPlace& place);

}  // namespace stepscope

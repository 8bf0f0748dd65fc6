// Answers calls about runs, from a shelf. Every answer about a run carries its version as ETag; what was worked out for
// a version is kept (kMaxKeptBytes in all) and given to the next who asks. One thread at a time (the server's worker);
// an answer may take seconds where a large run file is read. Nothing throws.
#pragma once

#include <expected>
#include <list>
#include <memory>
#include <string>

#include "serve/event_stream.h"
#include "serve/http_message.h"
#include "serve/routes.h"
#include "serve/run_shelf.h"

namespace stepscope {

class Api {
 public:
  static constexpr size_t kMaxKeptBytes = 48u << 20, kMaxMetricRuns = 8;

  explicit Api(ShelfOptions options) : shelf_(std::move(options)) {}

  // Any route but assets and events.
  HttpAnswer answer(const Call& call, const std::string& if_none_match);
  // What a listener is told next; 404 as an answer where there is no such run.
  std::expected<std::string, HttpAnswer> events(const std::string& run, EventCursor& cursor, uint64_t now_ns);

 private:
  struct Kept {
    std::string key;
    uint64_t version = 0;
    std::shared_ptr<const std::string> body;
  };
  HttpAnswer of_run(const Call& call, const std::string& if_none_match);
  HttpAnswer missing(const std::string& run, const Error& error) const;
  HttpAnswer comparison(const Call& call);
  std::string metrics();
  void keep(Kept kept);

  RunShelf shelf_;
  std::list<Kept> kept_;  // newest use first
  size_t kept_bytes_ = 0;
};

}  // namespace stepscope

// The HTTP server: one listener for browser, API, events, metrics and frames of other nodes. HTTP/1.1 with keep-alive;
// GET and HEAD, and POST of frames where there is a gate for them.
//
// Threads: two of its own. One does all input and output, one works out answers; whoever owns a Server only starts and
// stops it and is never waited for nor waits, but in stop(). Limits: connections, kMaxHeaderBytes, no bodies but frames
// of FrameGate::kMaxFrameBytes from senders that know the secret, time for a request's header, for a frame, between
// requests and for writing; a browser that stops reading is dropped; more than kMaxWaiting calls at once are refused
// (503). Nothing throws out of here. Who may read and send: access.h.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/result.h"
#include "serve/frame_gate.h"
#include "serve/run_shelf.h"

namespace stepscope {

struct ServerOptions {
  std::string address = "127.0.0.1";  // numeric; "" = 127.0.0.1
  uint16_t port = 0;                  // 0 = the system chooses
  std::string token;                  // at least 16 characters
  std::set<std::string> hosts;        // further names that it may be called by
  int event_interval_ms = 250;
  std::shared_ptr<FrameGate> frames;  // null: none are taken. Served on the thread that stops the server
  ShelfOptions shelf;
};

class Server {
 public:
  // Browsers keep a few open each, every node of a run one.
  static constexpr size_t kMaxConnections = 512, kMaxNodeConnections = 4096;
  static constexpr size_t kMaxHeaderBytes = 16384, kMaxWaiting = 128;

  // One line where the address cannot be listened on.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  // "http://127.0.0.1:8765/?token=…"
  std::string url() const;
  // Waits at most `grace_ms` until listeners of events have been told what is new, then ends all connections. Once.
  void stop(int grace_ms = 0);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope

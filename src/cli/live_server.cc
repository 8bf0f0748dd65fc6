#include "cli/live_server.h"

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "cli/serve_runs.h"
#include "serve/server.h"

namespace stepscope {
namespace {

constexpr uint64_t kIdleNs = 10'000'000'000;  // between two snapshots that nobody asked for
constexpr int kLastWordMs = 400;
constexpr const char* kPlace = "dashboard.place";  // port and token, for an agent that is started again

class LiveServer : public LiveView {
 public:
  LiveServer(double interval_s) : interval_ns_(static_cast<uint64_t>(std::clamp(interval_s, 0.2, 60.0) * 1e9)) {}
  ~LiveServer() override {
    if (server_) server_->stop(kLastWordMs);
  }

  Status open(const AgentConfig& config) {
    ServerOptions options;
    options.token = config.dashboard_token;
    options.port = static_cast<uint16_t>(config.dashboard_port);
    options.shelf.load = load_for_server;
    options.shelf.live = &slot_;
    options.shelf.live_name = config.run_name;
    options.shelf.live_dir = config.run_dir;
    if (!config.run_dir.empty()) options.shelf.logs = config.run_dir.substr(0, config.run_dir.rfind('/'));
    const std::string place = config.shm_dir.empty() ? "" : path_join(config.shm_dir, kPlace);
    if (const auto port = read_file(place, 16); port && options.port == 0)
      options.port = static_cast<uint16_t>(std::clamp(std::atoi(port->c_str()), 0, 65535));
    auto server = Server::start(options);
    if (!server && config.dashboard_port == 0 && options.port != 0) options.port = 0, server = Server::start(options);
    if (!server) return std::unexpected(server.error());
    server_ = std::move(*server);
    if (!place.empty()) (void)write_file_atomic(place, std::to_string(server_->port()));
    return {};
  }
  std::string url() const { return server_->url(); }

  bool wants_snapshot(uint64_t now_ns) override {
    return now_ns >= shown_ns_ + (slot_.wanted(now_ns) ? interval_ns_ : kIdleNs) || shown_ns_ == 0;
  }
  void show(std::shared_ptr<const Snapshot> snapshot, std::shared_ptr<const HostFacts> host, uint64_t now_ns) override {
    shown_ns_ = now_ns;
    slot_.put(std::move(snapshot), std::move(host));
  }

 private:
  uint64_t interval_ns_, shown_ns_ = 0;
  LiveSlot slot_;
  std::unique_ptr<Server> server_;
};

}  // namespace

std::unique_ptr<LiveView> make_live_server(const AgentConfig& config, const std::function<void(std::string)>& notice) {
  if (config.dashboard_token.empty()) return nullptr;
  auto view = std::make_unique<LiveServer>(config.interval_s);
  if (Status status = view->open(config); !status) {
    notice("no browser view: " + status.error().message + " (the training goes on)");
    return nullptr;
  }
  notice("browser view: " + view->url());
  return view;
}

}  // namespace stepscope

#include "cli/node_door.h"

#include <sys/resource.h>

#include "base/random_hex.h"
#include "serve/server.h"

namespace stepscope {
namespace {

// A connection per node: a soft limit of 1,024 descriptors would be short.
void allow_many_connections() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, Server::kMaxNodeConnections + 4096);
  if (limit.rlim_cur < wanted) limit.rlim_cur = wanted, ::setrlimit(RLIMIT_NOFILE, &limit);
}

class ServedDoor : public NodeDoor {
 public:
  ServedDoor(std::shared_ptr<FrameGate> gate, std::unique_ptr<Server> server)
      : gate_(std::move(gate)), server_(std::move(server)) {}

  uint16_t port() const override { return server_->port(); }
  int fd() const override { return gate_->fd(); }
  void serve(const std::function<FrameReply(std::string_view)>& take) override { gate_->serve(take); }

 private:
  std::shared_ptr<FrameGate> gate_;
  std::unique_ptr<Server> server_;
};

}  // namespace

Result<std::unique_ptr<NodeDoor>> open_node_door(const DoorPlace& place) {
  allow_many_connections();
  ServerOptions options;
  options.address = place.address;
  options.port = place.port;
  options.token = random_hex(16);  // told to nobody: there is nothing to see
  options.frames = std::make_shared<FrameGate>(place.secret);
  options.shelf.load = [](const std::string&) { return fail("no runs here"); };
  auto gate = options.frames;
  auto server = Server::start(std::move(options));
  if (!server) return std::unexpected(server.error());
  return std::make_unique<ServedDoor>(std::move(gate), std::move(*server));
}

}  // namespace stepscope

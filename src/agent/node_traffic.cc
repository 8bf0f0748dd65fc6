#include "agent/node_traffic.h"

#include <arpa/inet.h>
#include <sys/stat.h>

#include <utility>

#include "agent/node_uplink.h"
#include "base/file.h"
#include "base/random_hex.h"

namespace stepscope {
namespace {

constexpr uint64_t kLookNs = 50'000'000, kLookAgainNs = 1'000'000'000;

// A note's time has the grain of the kernel's ticks: one that is written whole is another file, too.
NodeTraffic::NoteSeen note_at(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return {static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec, info.st_ino};
}

bool is_numeric(const std::string& host) {
  in6_addr room;
  return ::inet_pton(AF_INET, host.c_str(), &room) == 1 || ::inet_pton(AF_INET6, host.c_str(), &room) == 1;
}

}  // namespace

NodeTraffic::NodeTraffic(TrafficOptions options, Watch watch)
    : options_(std::move(options)), watch_(std::move(watch)) {}

void NodeTraffic::look(bool rank_zero, uint64_t now_ns) {
  if (options_.aggregator == "off" || gave_up_ || now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + (role_ == Role::kAlone ? kLookNs : kLookAgainNs);
  if (options_.aggregator.empty()) return look_at_notes();
  const auto place = parse_place(options_.aggregator);
  if (!place) return;
  if (rank_zero && !door_) open_door(is_numeric(place->host) ? place->host : "0.0.0.0", place->port, place->host);
  if (!rank_zero && !door_ && !uplink_) send_to({*place, place->host, ""});
}

void NodeTraffic::look_at_notes() {
  if (options_.shm_dir.empty()) return;
  const std::string wish_path = path_join(options_.shm_dir, kWishFile);
  const std::string found_path = path_join(options_.shm_dir, kFoundFile);
  const NoteSeen wished = note_at(wish_path), found = note_at(found_path);
  const bool new_wish = wished.file != 0 && wished != wish_, new_found = found.file != 0 && found != found_;
  if (!new_wish && !new_found) return;
  wish_ = wished, found_ = found;
  const bool wish = new_wish && (!new_found || wished.written_ns >= found.written_ns);
  const auto text = read_file(wish ? wish_path : found_path, kMaxNoteBytes + 1);
  if (!text) return;
  if (wish) {
    if (const auto wanted = read_wish(*text)) open_door(wanted->listen, 0, wanted->tell);
  } else if (auto offer = read_offer(*text)) {
    send_to(*offer);
  }
}

void NodeTraffic::open_door(const std::string& listen, uint16_t port, const std::string& tell) {
  uplink_.reset();
  role_ = Role::kAggregates;
  const std::string offer_path = options_.shm_dir.empty() ? "" : path_join(options_.shm_dir, kOfferFile);
  if (!door_ && options_.open_door) {
    DoorPlace place{listen, port, options_.secret};
    // An agent before this one may have opened it: where it was, and with its secret, it is found again.
    const auto before = offer_path.empty() ? fail("") : read_file(offer_path, kMaxNoteBytes + 1);
    const auto offered = before ? read_offer(*before) : std::unexpected(before.error());
    if (offered && place.port == 0) place.port = offered->place.port;
    if (place.secret.empty() && offered) place.secret = offered->place.secret;
    if (place.secret.empty()) place.secret = random_hex(16);
    mine_.place = {tell, 0, place.secret};
    auto door = options_.open_door(place);
    if (!door && offered && port == 0) place.port = 0, door = options_.open_door(place);
    if (!door) {
      gave_up_ = true;
      role_ = Role::kAlone;
      lines_.push_back("the other nodes are not seen: " + door.error().message + " (the training goes on)");
      return;
    }
    door_ = std::move(*door);
    watch_(door_->fd());
  }
  if (!door_) return;
  mine_.place.host = tell, mine_.place.port = door_->port();
  mine_.node = options_.node, mine_.run_dir = options_.run_dir;
  AggregatorOffer offer = mine_;
  if (!options_.secret.empty()) offer.place.secret.clear();
  if (!offer_path.empty()) (void)write_file_atomic(offer_path, write_offer(offer));
}

void NodeTraffic::send_to(const AggregatorOffer& offer) {
  AggregatorOffer whole = offer;
  if (!options_.secret.empty()) whole.place.secret = options_.secret;
  const AggregatorPlace &to = whole.place, &now = theirs_.place;
  if (door_ && to.host == mine_.place.host && to.port == mine_.place.port) return;  // ourselves
  if (uplink_ && to.host == now.host && to.port == now.port && to.secret == now.secret) return;
  if (!is_secret(to.secret)) {
    lines_.push_back("the aggregator on " + place_text(to) +
                     " wants a secret from a file: set STEPSCOPE_SECRET_FILE on this node, too");
    gave_up_ = true;
    return;
  }
  theirs_ = std::move(whole);
  uplink_ = open_node_uplink(theirs_.place);
  was_up_ = refused_told_ = false;
  role_ = uplink_ ? Role::kSends : Role::kAlone;
  if (uplink_) watch_(uplink_->fd());
}

void NodeTraffic::turn(const FrameWork& work) {
  if (door_) door_->serve(work.take);
  if (!uplink_) return;
  FrameReply reply;
  if (uplink_->answer(reply)) {
    was_up_ = was_up_ || reply.status == 200;
    work.answered(reply);
  }
  if (work.next && uplink_->idle())
    if (auto frame = work.next()) uplink_->send(std::move(*frame));
  if (uplink_->state() == NodeUplink::State::kRefused && !refused_told_) {
    refused_told_ = true;
    lines_.push_back("the aggregator on " + place_text(theirs_.place) + " does not take this node's part: " +
                     uplink_->reason() + " (the training goes on, with a verdict of its own here)");
  }
}

bool NodeTraffic::can_deliver() const { return uplink_ && uplink_->state() != NodeUplink::State::kRefused; }

std::vector<std::string> NodeTraffic::take_lines() { return std::exchange(lines_, {}); }

std::string NodeTraffic::verdict_place() const {
  if (role_ != Role::kSends || !was_up_) return "";
  const std::string node = theirs_.node.empty() ? place_text(theirs_.place) : theirs_.node;
  return node + (theirs_.run_dir.empty() ? "" : ": " + theirs_.run_dir);
}

std::string NodeTraffic::verdict_note() const {
  if (role_ != Role::kSends) return "";
  if (was_up_) return "the verdict of the whole job is on " + verdict_place();
  const std::string where = place_text(theirs_.place);
  const std::string why = uplink_ ? uplink_->reason() : "";
  return "this is the verdict of this node alone: the aggregator on " + where + " was not reached" +
         (why.empty() ? "" : ": " + why);
}

}  // namespace stepscope

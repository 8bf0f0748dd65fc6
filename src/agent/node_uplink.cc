#include "agent/node_uplink.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/fd.h"

namespace stepscope {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kFirstPause{200}, kLongestPause{10'000};
constexpr seconds kConnectTime{5}, kAnswerTime{15};
constexpr size_t kMaxAnswerBytes = 1u << 20, kMaxReasonBytes = 300;
constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

// The message of {"error": {"message": "…"}}, or what stands in its place.
std::string message_of(const std::string& body, unsigned status) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  std::string text = "status " + std::to_string(status);
  if (json.is_object() && json.contains("error") && json["error"].is_object() && json["error"].contains("message") &&
      json["error"]["message"].is_string())
    text = json["error"]["message"].get<std::string>();
  std::replace_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, ' ');
  return text.substr(0, kMaxReasonBytes);
}

// Everything that the thread uses; shared, since a thread that looks a name up may outlive its owner.
struct Way {
  explicit Way(AggregatorPlace p) : place(std::move(p)), event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  const AggregatorPlace place;
  Fd event;
  std::mutex mutex;  // of the next five
  std::optional<std::string> frame;
  std::optional<FrameReply> reply;
  NodeUplink::State state = NodeUplink::State::kConnecting;
  std::string reason;
  bool was_up = false;
  std::atomic<bool> stopping{false}, resolving{false};
  asio::io_context io{1};
  asio::steady_timer wake{io};
  beast::tcp_stream stream{io};
  beast::flat_buffer buffer{2u << 20};

  std::string host_field() const {
    return (place.host.find(':') == std::string::npos ? place.host : "[" + place.host + "]") + ":" +
           std::to_string(place.port);
  }

  // "" or what is wrong.
  asio::awaitable<std::string> connect() {
    tcp::resolver resolver(io);
    boost::system::error_code failed;
    resolving = true;
    if (stopping) co_return "stopped";
    const auto found = resolver.resolve(place.host, std::to_string(place.port), failed);
    resolving = false;
    if (failed) co_return "cannot find " + place.host + ": " + failed.message();
    buffer.clear();
    stream.expires_after(kConnectTime);
    const auto [error, endpoint] = co_await stream.async_connect(found, kNoThrow);
    if (error) co_return "cannot reach " + host_field() + ": " + error.message();
    (void)stream.socket().set_option(tcp::no_delay(true), failed);
    co_return "";
  }

  void disconnect() {
    boost::system::error_code ignored;
    (void)stream.socket().close(ignored);
  }

  // What came back, or what is wrong.
  asio::awaitable<std::expected<http::response<http::string_body>, std::string>> ask(const std::string& body) {
    http::request<http::span_body<const char>> request(http::verb::post, "/api/v1/nodes/frames", 11);
    request.set(http::field::host, host_field());
    request.set(http::field::authorization, "Bearer " + place.secret);
    request.set(http::field::content_type, "application/octet-stream");
    request.body() = {body.data(), body.size()};
    request.prepare_payload();
    stream.expires_after(kAnswerTime);
    const auto [unsent, sent] = co_await http::async_write(stream, request, kNoThrow);
    // Who refuses a frame answers before it has read it all: the answer is there, although writing failed.
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMaxAnswerBytes);
    const auto [unread, got] = co_await http::async_read(stream, buffer, parser, kNoThrow);
    if (unread || !parser.is_done()) {
      disconnect();
      const auto error = unsent ? unsent : unread;
      co_return std::unexpected("no answer from " + host_field() + ": " + error.message());
    }
    if (unsent || !parser.get().keep_alive()) disconnect();
    co_return parser.release();
  }

  asio::awaitable<std::expected<http::response<http::string_body>, std::string>> exchange(const std::string& body) {
    const bool kept = stream.socket().is_open();
    if (kept) {  // it may have been closed over there since
      if (auto answer = co_await ask(body)) co_return answer;
    }
    if (std::string wrong = co_await connect(); !wrong.empty()) {
      disconnect();
      co_return std::unexpected(std::move(wrong));
    }
    co_return co_await ask(body);
  }

  enum class Next { kDone, kAgain, kNever };

  Next note(const std::expected<http::response<http::string_body>, std::string>& answer) {
    const std::scoped_lock lock(mutex);
    const auto down = [&](std::string why) {
      state = was_up ? NodeUplink::State::kDown : NodeUplink::State::kConnecting;
      reason = std::move(why);
      return Next::kAgain;
    };
    if (!answer) return down(answer.error());
    const unsigned status = answer->result_int();
    if (status == 200 || status == 400 || status == 413) {  // 400, 413: this frame will never do
      if (status == 200) was_up = true, state = NodeUplink::State::kUp, reason.clear();
      reply = FrameReply{static_cast<int>(status), status == 200 ? answer->body() : message_of(answer->body(), status)};
      frame.reset();
      return Next::kDone;
    }
    const std::string message = message_of(answer->body(), status);
    if (status == 408 || status >= 500 || (was_up && status != 409)) return down(message);
    state = NodeUplink::State::kRefused;
    reason = message;
    frame.reset();
    return Next::kNever;
  }

  void tell() {
    const uint64_t one = 1;
    if (event) (void)!::write(event.get(), &one, sizeof one);
  }

  asio::awaitable<void> run() {
    milliseconds pause = kFirstPause;
    for (;;) {
      std::optional<std::string> body;
      {
        const std::scoped_lock lock(mutex);
        body = frame;
      }
      if (!body) {
        wake.expires_at(asio::steady_timer::time_point::max());
        (void)co_await wake.async_wait(kNoThrow);
        continue;
      }
      const Next next = note(co_await exchange(*body));
      tell();
      if (next == Next::kNever) co_return;
      if (next == Next::kDone) {
        pause = kFirstPause;
        continue;
      }
      asio::steady_timer later(io, pause);
      (void)co_await later.async_wait(kNoThrow);
      pause = std::min(2 * pause, kLongestPause);
    }
  }
};

class HttpUplink : public NodeUplink {
 public:
  explicit HttpUplink(const AggregatorPlace& place) : way_(std::make_shared<Way>(place)) {
    asio::co_spawn(way_->io, way_->run(), asio::detached);
    thread_ = std::thread([way = way_] { way->io.run(); });
  }
  ~HttpUplink() override {
    way_->stopping = true;
    way_->io.stop();
    if (way_->resolving)
      thread_.detach();  // a name server that does not answer is not waited for
    else
      thread_.join();
  }

  bool idle() const override {
    const std::scoped_lock lock(way_->mutex);
    return !way_->frame && !way_->reply && way_->state != State::kRefused;
  }
  void send(std::string frame) override {
    {
      const std::scoped_lock lock(way_->mutex);
      way_->frame = std::move(frame);
    }
    asio::post(way_->io, [way = way_.get()] { way->wake.cancel(); });
  }
  bool answer(FrameReply& reply) override {
    uint64_t count = 0;
    if (way_->event) (void)!::read(way_->event.get(), &count, sizeof count);
    const std::scoped_lock lock(way_->mutex);
    if (!way_->reply) return false;
    reply = std::move(*way_->reply);
    way_->reply.reset();
    return true;
  }
  State state() const override {
    const std::scoped_lock lock(way_->mutex);
    return way_->state;
  }
  std::string reason() const override {
    const std::scoped_lock lock(way_->mutex);
    return way_->reason;
  }
  int fd() const override { return way_->event.get(); }

 private:
  std::shared_ptr<Way> way_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<NodeUplink> open_node_uplink(const AggregatorPlace& place) {
  try {
    return std::make_unique<HttpUplink>(place);
  } catch (const std::exception&) {  // no threads, no descriptors
    return nullptr;
  }
}

}  // namespace stepscope

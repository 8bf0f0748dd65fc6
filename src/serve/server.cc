#include "serve/server.h"

#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/random_hex.h"
#include "serve/access.h"
#include "serve/api.h"
#include "serve/assets.h"

namespace stepscope {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kHeaderTime{10}, kIdleTime{60}, kWriteTime{15}, kFrameTime{15}, kTakeTime{5};
constexpr milliseconds kAcceptPause{100};
constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

std::string head_of(const HttpAnswer& answer, bool keep_alive, bool endless) {
  std::string out = "HTTP/1.1 " + std::to_string(answer.status) + " " + reason_of(answer.status) + "\r\n";
  const auto field = [&](std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
  };
  if (answer.body || endless) field("Content-Type", answer.type);
  if (!endless && answer.status != 304) field("Content-Length", std::to_string(answer.body ? answer.body->size() : 0));
  field("Content-Security-Policy", kPolicy);
  field("X-Content-Type-Options", "nosniff");
  field("Referrer-Policy", "no-referrer");
  field("Cross-Origin-Resource-Policy", "same-origin");
  field("Cache-Control", endless ? "no-store" : "no-cache, private");
  for (const auto& [name, value] : answer.fields) field(name, value);
  field("Connection", keep_alive ? "keep-alive" : "close");
  return out + "\r\n";
}

HttpRequest plain(const http::request<http::string_body>& request) {
  const auto text = [&](http::field name) {
    const auto found = request.find(name);
    return found == request.end() ? std::string() : std::string(found->value());
  };
  HttpRequest out;
  out.method = std::string(request.method_string());
  out.target = std::string(request.target());
  out.host = text(http::field::host), out.origin = text(http::field::origin);
  out.authorization = text(http::field::authorization), out.cookie = text(http::field::cookie);
  out.if_none_match = text(http::field::if_none_match);
  const auto named = [&](const char* name) {
    const auto found = request.find(name);
    return found == request.end() ? std::string() : std::string(found->value());
  };
  out.fetch_site = named("Sec-Fetch-Site"), out.last_event_id = named("Last-Event-ID");
  return out;
}

int status_of(const boost::system::error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == beast::error::timeout) return 408;
  return error.category() == http::make_error_code(http::error::bad_method).category() ? 400 : 0;
}

std::string of_status(int status) {
  return status == 431   ? "the header of the request is too long"
         : status == 413 ? "requests with a body are not taken"
         : status == 408 ? "the request took too long to arrive"
                         : "this is no HTTP request";
}

std::string frame_status(int status) { return status == 413 ? "the frame is too large" : of_status(status); }

}  // namespace

struct Server::Impl {
  explicit Impl(ServerOptions o)
      : options(std::move(o)),
        access(options.token, random_hex(4), options.hosts),
        api(options.shelf),
        acceptor(io),
        worker(1) {}

  ServerOptions options;
  Access access;
  Api api;  // on the worker alone
  std::atomic<size_t> connections{0}, waiting{0}, listeners{0};
  std::atomic<bool> stopping{false};
  uint16_t port = 0;
  asio::io_context io{1};  // owns the sessions, which use all of the above
  tcp::acceptor acceptor;
  asio::thread_pool worker;
  std::thread thread;

  // Runs `work` on the worker. 503 where too many wait.
  template <class Work>
  asio::awaitable<std::optional<std::invoke_result_t<Work>>> worked_out(Work work) {
    if (waiting.fetch_add(1) >= kMaxWaiting) {
      waiting.fetch_sub(1);
      co_return std::nullopt;
    }
    auto task = [&work]() -> asio::awaitable<std::invoke_result_t<Work>> { co_return work(); };
    auto result = co_await asio::co_spawn(worker.get_executor(), std::move(task), asio::use_awaitable);
    waiting.fetch_sub(1);
    co_return std::optional<std::invoke_result_t<Work>>(std::move(result));
  }

  asio::awaitable<bool> send(beast::tcp_stream& stream, const HttpAnswer& answer, bool keep_alive, bool head_only) {
    const std::string head = head_of(answer, keep_alive, false);
    const bool with_body = answer.body && !head_only && answer.status != 304;
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(head),
                                                     with_body ? asio::buffer(*answer.body) : asio::const_buffer()};
    stream.expires_after(kWriteTime);
    const auto [error, bytes] = co_await asio::async_write(stream, parts, kNoThrow);
    co_return !error;
  }

  asio::awaitable<void> stream_events(beast::tcp_stream& stream, const std::string& run, const HttpRequest& request) {
    EventCursor cursor{.after_step = step_of_event_id(request.last_event_id)};
    HttpAnswer head{.type = "text/event-stream", .body = nullptr, .fields = {{"X-Accel-Buffering", "no"}}};
    bool begun = false;
    asio::steady_timer timer(io);
    struct Count {
      std::atomic<size_t>& count;
      explicit Count(std::atomic<size_t>& c) : count(c) { ++count; }
      ~Count() { --count; }
    } const counted(listeners);
    while (!cursor.ended) {
      auto told = co_await worked_out([&] { return api.events(run, cursor, monotonic_ns()); });
      std::string text;
      if (told && !*told) {
        if (!begun) co_await send(stream, told->error(), false, false);
        co_return;
      }
      if (told) text = std::move(**told);
      if (!begun) text = head_of(head, false, true) + "retry: 2000\n\n" + text, begun = true;
      if (!text.empty()) {
        stream.expires_after(kWriteTime);
        const auto [error, bytes] = co_await asio::async_write(stream, asio::buffer(text), kNoThrow);
        if (error) co_return;
      }
      timer.expires_after(milliseconds(options.event_interval_ms));
      const auto [error] = co_await timer.async_wait(kNoThrow);
      if (error) co_return;
    }
  }

  // Waits until the owner has looked at the frame. Nothing: the gate is full, or the owner has no time.
  asio::awaitable<std::optional<FrameReply>> taken_in(std::string bytes) {
    struct Pending {
      asio::steady_timer done;
      std::optional<FrameReply> reply;
    };
    auto pending = std::make_shared<Pending>(Pending{asio::steady_timer(io, kTakeTime), std::nullopt});
    const bool put = options.frames->put(std::move(bytes), [this, pending](FrameReply reply) {
      asio::post(io, [pending, reply = std::move(reply)]() mutable {
        pending->reply = std::move(reply);
        pending->done.cancel();
      });
    });
    if (put) co_await pending->done.async_wait(kNoThrow);
    co_return std::move(pending->reply);
  }

  // A body is read only from who knows the secret. False: the connection is over.
  asio::awaitable<bool> take_frame(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                   http::request_parser<http::string_body>& parser, const HttpRequest& request,
                                   bool keep_alive) {
    if (const auto refused = node_refusal(request, options.frames->secret())) {
      co_await send(stream, *refused, false, false);
      co_return false;
    }
    stream.expires_after(kFrameTime);
    const auto [error, bytes] = co_await http::async_read(stream, buffer, parser, kNoThrow);
    if (error) {
      const int status = status_of(error);
      if (status > 0) co_await send(stream, answer_error(status, frame_status(status)), false, false);
      co_return false;
    }
    auto reply = co_await taken_in(std::move(parser.get().body()));
    HttpAnswer answer;
    if (!reply) {
      answer = answer_error(503, "too much waits to be taken in; send it again");
      answer.fields.emplace_back("Retry-After", "1");
    } else if (reply->status != 200) {
      answer = answer_error(reply->status, reply->body);
    } else {
      answer = answer_with(200, "application/octet-stream", std::move(reply->body));
    }
    co_return co_await send(stream, answer, keep_alive, false) && keep_alive;
  }

  // False: the connection is over.
  asio::awaitable<bool> serve(beast::tcp_stream& stream, const HttpRequest& request, const Result<Target>& target,
                              bool keep_alive) {
    const bool head_only = request.method == "HEAD";
    if (!target)
      co_return co_await send(stream, answer_error(400, target.error().message), keep_alive, head_only) && keep_alive;
    if (auto refused = access.refusal(request, *target)) {
      if (refused->status == 401 && target->segments.empty()) refused = locked_page();
      co_return co_await send(stream, *refused, keep_alive, head_only) && keep_alive;
    }
    const auto call = parse_call(*target);
    if (!call) co_return co_await send(stream, call.error(), keep_alive, head_only) && keep_alive;
    if (call->route == Route::kEvents) {
      if (head_only)
        co_return co_await send(stream, {.type = "text/event-stream", .body = nullptr, .fields = {}}, keep_alive, true);
      co_await stream_events(stream, call->run, request);
      co_return false;
    }
    HttpAnswer answer;
    if (call->route == Route::kNodeFrames) {
      answer = answer_error(options.frames ? 405 : 404, options.frames ? "frames are posted" : "no frames here");
    } else if (call->route == Route::kAsset) {
      answer = asset_answer(call->asset, request.if_none_match);
      if (call->asset.empty()) answer.fields.emplace_back("Set-Cookie", access.cookie());
    } else {
      auto worked = co_await worked_out([&] { return api.answer(*call, request.if_none_match); });
      answer = worked ? std::move(*worked) : answer_error(503, "too much is asked for at once; try again");
    }
    co_return co_await send(stream, answer, keep_alive, head_only) && keep_alive;
  }

  asio::awaitable<void> session(tcp::socket socket) {
    struct Count {
      std::atomic<size_t>& count;
      ~Count() { --count; }
    } const counted{connections};
    beast::tcp_stream stream(std::move(socket));
    boost::system::error_code ignored;
    stream.socket().set_option(tcp::no_delay(true), ignored);
    beast::flat_buffer buffer(2 * kMaxHeaderBytes);
    for (bool first = true;; first = false) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(kMaxHeaderBytes);
      parser.body_limit(options.frames ? FrameGate::kMaxFrameBytes : 0);
      stream.expires_after(first ? kHeaderTime : kIdleTime);
      const auto [error, bytes] = co_await http::async_read_header(stream, buffer, parser, kNoThrow);
      if (error) {
        const int status = parser.is_header_done() || buffer.size() > 0 || bytes > 0 ? status_of(error) : 0;
        if (status > 0) co_await send(stream, answer_error(status, of_status(status)), false, false);
        break;
      }
      const HttpRequest request = plain(parser.get());
      const bool keep_alive = parser.get().keep_alive();
      const auto target = parse_target(request.target);
      if (options.frames && request.method == "POST" && target && takes_body(*target)) {
        if (!co_await take_frame(stream, buffer, parser, request, keep_alive)) break;
        continue;
      }
      if (!parser.is_done()) {
        co_await send(stream, answer_error(413, of_status(413)), false, false);
        break;
      }
      if (!co_await serve(stream, request, target, keep_alive)) break;
    }
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  asio::awaitable<void> accept() {
    asio::steady_timer pause(io);
    for (;;) {
      auto [error, socket] = co_await acceptor.async_accept(kNoThrow);
      if (error == asio::error::operation_aborted) co_return;
      if (error) {  // no descriptors left: those who are here go on
        pause.expires_after(kAcceptPause);
        co_await pause.async_wait(kNoThrow);
        continue;
      }
      if (connections.load() >= (options.frames ? kMaxNodeConnections : kMaxConnections)) continue;  // closed
      ++connections;
      asio::co_spawn(io, session(std::move(socket)), asio::detached);
    }
  }

  Status listen() {
    boost::system::error_code error;
    const auto address = asio::ip::make_address(options.address.empty() ? "127.0.0.1" : options.address, error);
    const std::string place = options.address + ":" + std::to_string(options.port);
    if (error) return fail("cannot listen on " + place + ": not a numeric address");
    const tcp::endpoint endpoint(address, options.port);
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) return fail("cannot listen on " + place + ": " + error.message());
    port = acceptor.local_endpoint(error).port();
    return {};
  }
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  try {
    auto impl = std::make_unique<Impl>(std::move(options));
    if (Status status = impl->listen(); !status) return std::unexpected(status.error());
    asio::co_spawn(impl->io, impl->accept(), asio::detached);
    impl->thread = std::thread([&io = impl->io] { io.run(); });
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  } catch (const std::exception& error) {  // no threads, no descriptors
    return fail(std::string("the server cannot start: ") + error.what());
  }
}

Server::~Server() { stop(); }

uint16_t Server::port() const { return impl_->port; }

std::string Server::url() const {
  std::string host = impl_->options.address.empty() ? "127.0.0.1" : impl_->options.address;
  if (host == "0.0.0.0" || host == "::") host = "127.0.0.1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return "http://" + host + ":" + std::to_string(impl_->port) + "/?token=" + impl_->access.token();
}

void Server::stop(int grace_ms) {
  if (impl_->stopping.exchange(true)) return;
  for (int waited_ms = 0; waited_ms < grace_ms && impl_->listeners.load() > 0; waited_ms += 10)
    std::this_thread::sleep_for(milliseconds(10));
  impl_->io.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->worker.stop();
  impl_->worker.join();
  if (impl_->options.frames) impl_->options.frames->close();  // what waits there would answer to us
}

}  // namespace stepscope

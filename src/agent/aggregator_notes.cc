#include "agent/aggregator_notes.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace stepscope {
namespace {

constexpr size_t kMaxHost = 255, kMaxRunDir = 1024;

bool is_host(std::string_view text) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
  return !text.empty() && text.size() <= kMaxHost && text.find_first_not_of(allowed) == std::string_view::npos;
}

Result<nlohmann::json> object_of(const std::string& text) {
  if (text.size() > kMaxNoteBytes) return fail("too long");
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return fail("no JSON object");
  return json;
}

std::string text_of(const nlohmann::json& json, const char* name, size_t most_bytes) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return "";
  std::string text = found->get<std::string>().substr(0, most_bytes);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return text;
}

}  // namespace

bool is_secret(std::string_view text) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  return text.size() >= 16 && text.size() <= 256 && text.find_first_not_of(allowed) == std::string_view::npos;
}

Result<AggregatorWish> read_wish(const std::string& text) {
  const auto json = object_of(text);
  if (!json) return std::unexpected(json.error());
  AggregatorWish wish{text_of(*json, "listen", kMaxHost + 1), text_of(*json, "tell", kMaxHost + 1)};
  if (!is_host(wish.listen) || !is_host(wish.tell)) return fail("no addresses");
  return wish;
}

Result<AggregatorOffer> read_offer(const std::string& text) {
  const auto json = object_of(text);
  if (!json) return std::unexpected(json.error());
  AggregatorOffer offer;
  offer.place.host = text_of(*json, "host", kMaxHost + 1);
  const auto port = json->find("port");
  if (!is_host(offer.place.host) || port == json->end() || !port->is_number_unsigned()) return fail("no address");
  const uint64_t number = port->get<uint64_t>();
  if (number < 1 || number > 65535) return fail("no port");
  offer.place.port = static_cast<uint16_t>(number);
  offer.place.secret = text_of(*json, "secret", 257);
  if (!offer.place.secret.empty() && !is_secret(offer.place.secret)) return fail("no secret");
  offer.node = text_of(*json, "node", kMaxHost);
  offer.run_dir = text_of(*json, "run_dir", kMaxRunDir);
  return offer;
}

std::string write_offer(const AggregatorOffer& offer) {
  const nlohmann::json json = {{"host", offer.place.host},
                               {"port", offer.place.port},
                               {"secret", offer.place.secret},
                               {"node", offer.node},
                               {"run_dir", offer.run_dir.substr(0, kMaxRunDir)}};
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Result<AggregatorPlace> parse_place(const std::string& text) {
  const size_t colon = text.rfind(':');
  AggregatorPlace place;
  place.host = text.substr(0, colon);
  if (place.host.starts_with('[') && place.host.ends_with(']'))
    place.host = place.host.substr(1, place.host.size() - 2);
  else if (place.host.find(':') != std::string::npos)
    return fail("must be HOST:PORT, an IPv6 address in brackets");
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (!is_host(place.host) || error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535)
    return fail("must be HOST:PORT");
  place.port = static_cast<uint16_t>(number);
  return place;
}

std::string place_text(const AggregatorPlace& place) {
  const bool six = place.host.find(':') != std::string::npos;
  return (six ? "[" + place.host + "]" : place.host) + ":" + std::to_string(place.port);
}

}  // namespace stepscope

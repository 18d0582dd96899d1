// zlib does it; what is here is the limit: a kilobyte may stand for a megabyte.
#include "server/http/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "server/api/api_error.h"

namespace heddle::server {
namespace {

constexpr size_t step = 64u << 10;  // bytes by which the result grows
constexpr int zlib_or_gzip = 15 + 32, raw_deflate = -15;

struct Inflater {
  z_stream stream{};
  explicit Inflater(int format) {
    if (inflateInit2(&stream, format) != Z_OK) throw server_fault("zlib has no memory");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
};

std::string lower_name(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c | 0x20);
  return out;
}

ApiError not_encoded(std::string_view encoding, std::string_view reason) {
  return {400, "", "", "the body: expected {}, found {}", encoding, reason};
}

// Of gzip there may be several members, one after the other.
std::string inflated(std::string_view body, std::string_view encoding, int format, size_t max_bytes) {
  Inflater inflater(format);
  z_stream& stream = inflater.stream;
  if (body.size() > std::numeric_limits<uInt>::max()) throw not_encoded(encoding, "4 GiB or more");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = uInt(body.size());
  std::string out;
  for (;;) {
    const size_t size = out.size();
    if (size > max_bytes)
      throw ApiError(413, "request_too_large", "", "the body is too long: expected at most {} bytes when expanded",
                     max_bytes);
    out.resize(size + std::min(step, max_bytes + 1 - size));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + size);
    stream.avail_out = uInt(out.size() - size);
    const int state = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (state == Z_STREAM_END) {
      if (stream.avail_in == 0) break;
      if (encoding != "gzip" || inflateReset(&stream) != Z_OK) throw not_encoded(encoding, "more bytes behind its end");
    } else if (state == Z_BUF_ERROR || (state == Z_OK && stream.avail_in == 0 && stream.avail_out != 0)) {
      throw not_encoded(encoding, "an end in the middle");
    } else if (state != Z_OK) {
      throw not_encoded(encoding, stream.msg ? stream.msg : "other bytes");
    }
  }
  if (out.size() > max_bytes)
    throw ApiError(413, "request_too_large", "", "the body is too long: expected at most {} bytes when expanded",
                   max_bytes);
  return out;
}

// The first bytes of zlib's format, which is what "deflate" means; some clients leave them out.
bool has_zlib_header(std::string_view body) {
  return body.size() >= 2 && (uint8_t(body[0]) & 0x0f) == 8 && (uint8_t(body[0]) * 256 + uint8_t(body[1])) % 31 == 0;
}

}  // namespace

bool is_identity(std::string_view encoding) { return encoding.empty() || lower_name(encoding) == "identity"; }

std::string decode_body(std::string body, std::string_view encoding, size_t max_bytes) {
  if (is_identity(encoding)) return body;
  const std::string name = lower_name(encoding);
  if (name == "gzip" || name == "x-gzip") return inflated(body, "gzip", zlib_or_gzip, max_bytes);
  if (name == "deflate") return inflated(body, name, has_zlib_header(body) ? zlib_or_gzip : raw_deflate, max_bytes);
  throw ApiError(415, "unsupported_media_type", "", "Content-Encoding: expected gzip, deflate or identity, found {}",
                 in_quotes(encoding));
}

}  // namespace heddle::server

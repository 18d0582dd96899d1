// Bodies as clients compress them, by zlib's own compressor.
#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace heddle::test {

constexpr int zlib_format = 15, gzip_format = 31, raw_format = -15;  // as zlib numbers them

inline std::string deflated(const std::string& text, int format = gzip_format) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, uLong(text.size())) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace heddle::test

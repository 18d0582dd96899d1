// What a checkpoint says of sublayers with a recurrent state.
#pragma once
#include <functional>

#include "model/architectures.h"
#include "model/reader.h"

namespace heddle::model {

class StateReader {
 public:
  // The keys, before Reader::finish_options().
  void read_options(Reader& read, const Architecture& architecture);

  // Whether the layer with the prefix `blk` has a recurrent state; its tensors tell.
  bool has(const Reader& read, const std::string& blk) const;
  // norm(name, size): the norm of that name, as the architecture has norms.
  Sublayer read(Reader& read, const std::string& blk, uint32_t width,
                const std::function<Norm(const std::string&, uint64_t)>& norm) const;

 private:
  void read_heads(Reader& read);
  Convolution convolution(Reader& read, const std::string& name, uint64_t channels) const;
  void read_delta(Reader& read, const std::string& blk, uint64_t width, Recurrence& to) const;
  void read_ssd(Reader& read, const std::string& blk, uint64_t width, Recurrence& to) const;

  States kind_ = States::none;
  Recurrence sizes_;  // what the keys say of it
  uint32_t convolution_width_ = 0;
};

}  // namespace heddle::model

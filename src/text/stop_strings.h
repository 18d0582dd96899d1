// Texts that end an answer, looked for in a stream.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace heddle::text {

// What push() returns, joined, is the stream before the first stop text: the one that is complete first, whatever the
// pieces are. What may still become a stop text is held back.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> texts);  // an Error if one is empty

  std::string push(std::string_view piece);  // nothing any more once found()
  std::string finish();                      // what was held back
  bool found() const { return found_; }

 private:
  std::vector<std::string> texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace heddle::text

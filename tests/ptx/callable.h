// What a case does, as a value, like std::function: thousands of lambdas become such values, and std::function takes
// twice as long to compile.
#pragma once
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace heddle::ptx {

template <class Signature>
class Callable;

template <class R, class... A>
class Callable<R(A...)> {
 public:
  Callable() = default;
  template <class F>
  Callable(F f) requires(!std::same_as<F, Callable>) {
    if constexpr (is_without_state<F>) {
      call_ = &call_anew<F>;
    } else {
      kept_ = std::shared_ptr<const Kept>(static_cast<const Kept*>(new Of<F>(std::move(f))));
      call_ = &call_kept<F>;
    }
  }
  explicit operator bool() const { return call_ != nullptr; }
  R operator()(A... a) const { return call_(kept_.get(), static_cast<A>(a)...); }

 private:
  struct Kept {
    virtual ~Kept() = default;
  };
  template <class F>
  struct Of : Kept {
    explicit Of(F&& given) : f(std::move(given)) {}
    F f;
  };
  template <class F>
  static constexpr bool is_without_state = std::conjunction_v<std::is_empty<F>, std::is_default_constructible<F>>;
  template <class F>
  static R call_anew(const Kept*, A... a) {
    return F()(static_cast<A>(a)...);
  }
  template <class F>
  static R call_kept(const Kept* kept, A... a) {
    return static_cast<const Of<F>*>(kept)->f(static_cast<A>(a)...);
  }

  std::shared_ptr<const Kept> kept_;
  R (*call_)(const Kept*, A...) = nullptr;
};

}  // namespace heddle::ptx

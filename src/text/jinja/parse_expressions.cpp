// Expressions by recursive descent, with jinja2's own order of precedence: ** binds less than a unary minus, ~ more
// than +.
#include <algorithm>

#include "text/jinja/functions.h"
#include "text/jinja/parser.h"

namespace heddle::text::jinja {

bool Parser::is_word(Words words) const {
  return std::any_of(words.begin(), words.end(), [this](std::string_view word) { return is_word(word); });
}
bool Parser::skip_word(std::string_view word) {
  if (!is_word(word)) return false;
  ++at_;
  return true;
}
bool Parser::skip_sign(std::string_view sign) {
  if (!is_sign(sign)) return false;
  ++at_;
  return true;
}
void Parser::expect_word(std::string_view word) {
  if (!skip_word(word)) unexpected(fmt::format("\"{}\"", word));
}
void Parser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) unexpected(fmt::format("\"{}\"", sign));
}
Token Parser::expect(Token::Kind kind, std::string_view what) {
  if (!is(kind)) unexpected(what);
  return take();
}
void Parser::unexpected(std::string_view wanted) const {
  fail_at(now().at, "expected {}, found {}", wanted, describe(now()));
}

NameId Parser::name_id(const std::string& name) {
  const auto [place, is_new] = ids_.emplace(name, NameId(names_.size()));
  if (is_new) names_.push_back(name);
  return place->second;
}

// A macro takes further arguments if its body mentions them.
void Parser::mention(const std::string& name) {
  for (MacroSpec* macro : macros_) {
    if (name == "varargs") macro->rest = name_id(name);
    if (name == "kwargs") macro->named = name_id(name);
    if (name == "caller") macro->caller = name_id(name);
  }
}

// A chain such as a + b + c is nested to the left without recursion here, but destroyed and evaluated with it.
void Parser::set_depth(Expr& expr) const {
  const auto deepen = [&](const ExprPtr& child) {
    if (child) expr.depth = std::max(expr.depth, child->depth + 1);
  };
  for (const ExprPtr& child : expr.of) deepen(child);
  for (const ExprPtr& child : expr.args.positional) deepen(child);
  for (const auto& named : expr.args.named) deepen(named.second);
  deepen(expr.args.rest);
  deepen(expr.args.named_rest);
  if (expr.depth > max_depth_) fail_at(expr.at, "nested deeper than {} levels", max_depth_);
}
ExprPtr Parser::make(Expr::Kind kind, Place at, std::vector<ExprPtr> of) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->at = at;
  expr->of = std::move(of);
  set_depth(*expr);
  return expr;
}
ExprPtr Parser::binary(Expr::Kind kind, Place at, ExprPtr left, ExprPtr right, std::string sign) {
  std::vector<ExprPtr> of;
  of.push_back(std::move(left));
  of.push_back(std::move(right));
  ExprPtr expr = make(kind, at, std::move(of));
  expr->text = std::move(sign);
  return expr;
}

// Inside `a if b else c` an unknown filter is an error only when it is reached; whether an `if` follows is known only
// after `a`, so what was unknown in it is kept until then.
ExprPtr Parser::choice() {
  const Deeper deeper(*this);
  const bool outer = std::exchange(may_be_unknown_, true);
  const size_t noted = unknown_.size();
  ExprPtr value = either();
  const bool is_choice = is_word("if");
  while (is_word("if")) {
    std::vector<ExprPtr> of(3);
    const Place at = take().at;
    of[0] = either();
    of[1] = std::move(value);
    if (skip_word("else")) of[2] = choice();
    value = make(Expr::Kind::choice, at, std::move(of));
  }
  may_be_unknown_ = outer;
  if (!is_choice && !outer && unknown_.size() > noted) fail_at(unknown_[noted].first, "{}", unknown_[noted].second);
  if (is_choice || !outer) unknown_.resize(noted);
  return value;
}
ExprPtr Parser::either() {
  ExprPtr left = both();
  while (is_word("or")) {
    const Place at = take().at;
    left = binary(Expr::Kind::either, at, std::move(left), both());
  }
  return left;
}
ExprPtr Parser::both() {
  ExprPtr left = inverse();
  while (is_word("and")) {
    const Place at = take().at;
    left = binary(Expr::Kind::both, at, std::move(left), inverse());
  }
  return left;
}
ExprPtr Parser::inverse() {
  if (!is_word("not")) return compare();
  const Deeper deeper(*this);
  const Place at = take().at;
  std::vector<ExprPtr> of;
  of.push_back(inverse());
  return make(Expr::Kind::inverse, at, std::move(of));
}

ExprPtr Parser::compare() {
  const Place at = now().at;
  std::vector<ExprPtr> of;
  std::vector<std::string> signs;
  of.push_back(sum());
  static constexpr std::string_view comparisons[] = {"==", "!=", ">", ">=", "<", "<="};
  for (;;) {
    if (is(Token::Kind::sign) &&
        std::find(std::begin(comparisons), std::end(comparisons), now().text) != std::end(comparisons)) {
      signs.push_back(take().text);
    } else if (skip_word("in")) {
      signs.emplace_back("in");
    } else if (is_word("not") && is_word(ahead(), "in")) {
      at_ += 2;
      signs.emplace_back("not in");
    } else {
      break;
    }
    of.push_back(sum());
  }
  if (signs.empty()) return std::move(of[0]);
  ExprPtr expr = make(Expr::Kind::compare, at, std::move(of));
  expr->signs = std::move(signs);
  return expr;
}

ExprPtr Parser::sum() {
  ExprPtr left = concat();
  while (is_sign("+") || is_sign("-")) {
    Token sign = take();
    left = binary(Expr::Kind::binary, sign.at, std::move(left), concat(), std::move(sign.text));
  }
  return left;
}
ExprPtr Parser::concat() {
  const Place at = now().at;
  std::vector<ExprPtr> of;
  do of.push_back(product());
  while (skip_sign("~"));
  return of.size() == 1 ? std::move(of[0]) : make(Expr::Kind::concat, at, std::move(of));
}
ExprPtr Parser::product() {
  ExprPtr left = power();
  while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%")) {
    Token sign = take();
    left = binary(Expr::Kind::binary, sign.at, std::move(left), power(), std::move(sign.text));
  }
  return left;
}
ExprPtr Parser::power() {
  ExprPtr left = unary();
  while (is_sign("**")) {
    Token sign = take();
    left = binary(Expr::Kind::binary, sign.at, std::move(left), unary(), std::move(sign.text));
  }
  return left;
}
ExprPtr Parser::unary(bool with_filter) {
  const Deeper deeper(*this);
  ExprPtr expr;
  if (is_sign("-") || is_sign("+")) {
    const Token sign = take();
    std::vector<ExprPtr> of;
    of.push_back(unary(false));
    expr = make(sign.text == "-" ? Expr::Kind::negate : Expr::Kind::plus, sign.at, std::move(of));
  } else {
    expr = primary();
  }
  expr = postfix(std::move(expr));
  return with_filter ? filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::primary() {
  const Place at = now().at;
  if (is_sign("[")) return list();
  if (is_sign("{")) return dict();
  if (skip_sign("(")) {
    ExprPtr inner = tuple(true, {}, true);
    expect_sign(")");
    return inner;
  }
  ExprPtr expr = make(Expr::Kind::constant, at);
  if (is(Token::Kind::string)) {
    std::string text;
    while (is(Token::Kind::string)) text += take().text;
    expr->value = own_string(std::move(text));
  } else if (is(Token::Kind::number)) {
    expr->value = take().number;
  } else if (is(Token::Kind::name)) {
    std::string name = take().text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      expr->value = Value(name == "true" || name == "True");
    } else if (name == "none" || name == "None") {
      expr->value = Value::none();
    } else {
      expr->kind = Expr::Kind::name;
      expr->name = name_id(name);
      mention(name);
    }
  } else {
    unexpected("an expression");
  }
  return expr;
}

ExprPtr Parser::tuple(bool with_choice, Words ends, bool in_parentheses) {
  const Place at = now().at;
  std::vector<ExprPtr> of;
  bool is_tuple = false;
  for (;;) {
    if (is(Token::Kind::print_end) || is(Token::Kind::tag_end) || is_sign(")") || is_word(ends)) break;
    of.push_back(expression(with_choice));
    if (!skip_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !of.empty()) return std::move(of[0]);
  if (!is_tuple && !in_parentheses) unexpected("an expression");
  return make(Expr::Kind::tuple, at, std::move(of));
}

ExprPtr Parser::list() {
  const Place at = take().at;
  std::vector<ExprPtr> of;
  while (!is_sign("]")) {
    of.push_back(expression());
    if (!is_sign("]")) expect_sign(",");
  }
  ++at_;
  return make(Expr::Kind::list, at, std::move(of));
}
ExprPtr Parser::dict() {
  const Place at = take().at;
  std::vector<ExprPtr> of;
  while (!is_sign("}")) {
    of.push_back(expression());
    expect_sign(":");
    of.push_back(expression());
    if (!is_sign("}")) expect_sign(",");
  }
  ++at_;
  return make(Expr::Kind::dict, at, std::move(of));
}

ExprPtr Parser::postfix(ExprPtr base) {
  for (;;)
    if (is_sign(".") || is_sign("["))
      base = subscript(std::move(base));
    else if (is_sign("("))
      base = call(std::move(base));
    else
      return base;
}
ExprPtr Parser::filters_and_tests(ExprPtr base) {
  for (;;)
    if (skip_sign("|"))
      base = filter(std::move(base));
    else if (skip_word("is"))
      base = test(std::move(base));
    else if (is_sign("("))
      base = call(std::move(base));
    else
      return base;
}

ExprPtr Parser::subscript(ExprPtr base) {
  const Token sign = take();
  std::vector<ExprPtr> of;
  of.push_back(std::move(base));
  if (sign.text == ".") {
    if (is(Token::Kind::name)) {
      ExprPtr expr = make(Expr::Kind::attribute, sign.at, std::move(of));
      expr->text = take().text;
      return expr;
    }
    if (!is(Token::Kind::number) || !now().number.is(Kind::integer)) unexpected("a name or a number");
    of.push_back(primary());
    return make(Expr::Kind::item, sign.at, std::move(of));
  }
  const auto part_follows = [this] { return !is_sign(":") && !is_sign("]") && !is_sign(","); };
  std::vector<ExprPtr> keys;
  while (!is_sign("]")) {
    if (!keys.empty()) expect_sign(",");
    ExprPtr first = part_follows() ? expression() : nullptr;
    if (!is_sign(":")) {
      if (!first) unexpected("an expression");
      keys.push_back(std::move(first));
      continue;
    }
    ++at_;
    if (!keys.empty()) fail_at(sign.at, "a slice cannot be one of several keys");
    of.push_back(std::move(first));
    of.push_back(part_follows() ? expression() : nullptr);
    of.push_back(skip_sign(":") && part_follows() ? expression() : nullptr);
    expect_sign("]");
    return make(Expr::Kind::slice, sign.at, std::move(of));
  }
  ++at_;
  of.push_back(keys.size() == 1 ? std::move(keys[0]) : make(Expr::Kind::tuple, sign.at, std::move(keys)));
  return make(Expr::Kind::item, sign.at, std::move(of));
}

CallArgs Parser::arguments() {
  const Place at = now().at;
  expect_sign("(");
  CallArgs args;
  const auto ensure = [at](bool order) {
    if (!order) fail_at(at, "the arguments of a call: positional ones first, then *, named ones, then **");
  };
  while (!is_sign(")")) {
    if (skip_sign("*")) {
      ensure(!args.rest && !args.named_rest);
      args.rest = expression();
    } else if (skip_sign("**")) {
      ensure(!args.named_rest);
      args.named_rest = expression();
    } else if (is(Token::Kind::name) && ahead().kind == Token::Kind::sign && ahead().text == "=") {
      ensure(!args.named_rest);
      std::string name = take().text;
      ++at_;
      for (const auto& named : args.named)
        if (named.first == name) fail_at(at, "the argument \"{}\" is given twice", name);
      args.named.emplace_back(std::move(name), expression());
    } else {
      ensure(!args.rest && !args.named_rest && args.named.empty());
      args.positional.push_back(expression());
    }
    if (!is_sign(")")) expect_sign(",");
  }
  ++at_;
  return args;
}

ExprPtr Parser::call(ExprPtr callee) {
  std::vector<ExprPtr> of;
  of.push_back(std::move(callee));
  ExprPtr expr = make(Expr::Kind::call, now().at, std::move(of));
  expr->args = arguments();
  set_depth(*expr);
  return expr;
}

std::string Parser::dotted_name(std::string_view what) {
  std::string name = expect(Token::Kind::name, what).text;
  while (skip_sign(".")) name += "." + expect(Token::Kind::name, what).text;
  return name;
}

void Parser::note_unknown(Place at, std::string_view what, std::string_view name) {
  std::string message = fmt::format("there is no {} \"{}\"", what, name);
  if (!may_be_unknown_) fail_at(at, "{}", message);
  unknown_.emplace_back(at, std::move(message));
}

ExprPtr Parser::filter(ExprPtr value) {
  std::vector<ExprPtr> of;
  if (value) of.push_back(std::move(value));
  ExprPtr expr = make(Expr::Kind::filter, now().at, std::move(of));
  expr->text = dotted_name("the name of a filter");
  expr->function = find_filter(expr->text);
  if (!expr->function) note_unknown(expr->at, "filter", expr->text);
  if (is_sign("(")) expr->args = arguments();
  set_depth(*expr);
  return expr;
}

ExprPtr Parser::test(ExprPtr value) {
  const Place at = now().at;
  const bool negated = skip_word("not");
  std::vector<ExprPtr> of;
  of.push_back(std::move(value));
  ExprPtr expr = make(Expr::Kind::test, at, std::move(of));
  expr->text = dotted_name("the name of a test");
  expr->function = find_test(expr->text);
  if (!expr->function) note_unknown(expr->at, "test", expr->text);
  const bool value_follows =
      is(Token::Kind::name) || is(Token::Kind::string) || is(Token::Kind::number) || is_sign("[") || is_sign("{");
  if (is_sign("(")) {
    expr->args = arguments();
  } else if (value_follows && !is_word({"else", "or", "and"})) {
    if (is_word("is")) fail_at(now().at, "one test cannot follow another: use \"and\"");
    expr->args.positional.push_back(postfix(primary()));
  }
  set_depth(*expr);
  if (!negated) return expr;
  std::vector<ExprPtr> inverted;
  inverted.push_back(std::move(expr));
  return make(Expr::Kind::inverse, at, std::move(inverted));
}

}  // namespace heddle::text::jinja

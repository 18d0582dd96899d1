// Tokens -> Ast: the parser. Statements are in parse_statements.cpp, expressions in parse_expressions.cpp.
#pragma once
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"

namespace heddle::text::jinja {

// Throws an Error with line and column. `max_depth` bounds the nesting of tags and of expressions.
Ast parse(std::string_view source, uint32_t max_depth);

class Parser {
 public:
  Parser(std::vector<Token> tokens, uint32_t max_depth) : tokens_(std::move(tokens)), max_depth_(max_depth) {}
  Ast run();

 private:
  class Deeper;
  using Words = std::initializer_list<std::string_view>;

  // tokens
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_[at_]; }
  bool is(Token::Kind kind) const { return now().kind == kind; }
  static bool is_word(const Token& token, std::string_view word) {
    return token.kind == Token::Kind::name && token.text == word;
  }
  bool is_word(std::string_view word) const { return is_word(now(), word); }
  bool is_word(Words words) const;
  bool is_sign(std::string_view sign) const { return now().kind == Token::Kind::sign && now().text == sign; }
  bool skip_word(std::string_view word);
  bool skip_sign(std::string_view sign);
  void expect_word(std::string_view word);
  void expect_sign(std::string_view sign);
  Token expect(Token::Kind kind, std::string_view what);
  [[noreturn]] void unexpected(std::string_view wanted) const;

  // expressions
  ExprPtr expression(bool with_choice = true) { return with_choice ? choice() : either(); }
  ExprPtr choice();
  ExprPtr either();
  ExprPtr both();
  ExprPtr inverse();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr tuple(bool with_choice = true, Words ends = {}, bool in_parentheses = false);
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr base);
  ExprPtr filters_and_tests(ExprPtr base);
  ExprPtr subscript(ExprPtr base);
  ExprPtr call(ExprPtr callee);
  ExprPtr filter(ExprPtr value);  // after the "|"
  ExprPtr test(ExprPtr value);    // after "is"
  CallArgs arguments();
  std::string dotted_name(std::string_view what);
  ExprPtr make(Expr::Kind kind, Place at, std::vector<ExprPtr> of = {});
  void set_depth(Expr& expr) const;
  ExprPtr binary(Expr::Kind kind, Place at, ExprPtr left, ExprPtr right, std::string sign = {});
  NameId name_id(const std::string& name);
  void mention(const std::string& name);
  void note_unknown(Place at, std::string_view what, std::string_view name);

  // statements
  Body body(Words ends);   // up to a tag that begins with one of the words
  Body block(Words ends);  // the end of this tag, then body()
  Body whole_block(std::string_view end);
  void end_tag() { expect(Token::Kind::tag_end, "%}"); }
  std::unique_ptr<Stmt> statement();
  void branch(Stmt& stmt);
  void loop(Stmt& stmt);
  void set(Stmt& stmt);
  void with(Stmt& stmt);
  void macro(Stmt& stmt);
  void call_block(Stmt& stmt);
  void filter_block(Stmt& stmt);
  void generation(Stmt& stmt);
  void print_tag(Stmt& stmt);
  void loop_control(Stmt& stmt, Stmt::Kind kind);
  Target target(Words ends = {}, bool with_member = false);
  Target one_target(bool with_member);
  NameId parameter_name(std::string& text);
  void parameters(MacroSpec& spec);
  void macro_body(MacroSpec& spec, std::string_view end);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t max_depth_, depth_ = 0;
  uint32_t loops_ = 0;           // around this place, within the same macro
  bool may_be_unknown_ = false;  // inside an if, an unknown filter is an error only when it is reached
  std::vector<std::pair<Place, std::string>> unknown_;
  std::vector<MacroSpec*> macros_;
  std::unordered_map<std::string, NameId> ids_;
  std::vector<std::string> names_;
};

class Parser::Deeper {
 public:
  explicit Deeper(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > parser_.max_depth_)
      fail_at(parser_.now().at, "nested deeper than {} levels", parser_.max_depth_);
  }
  ~Deeper() { --parser_.depth_; }
  Deeper(const Deeper&) = delete;

 private:
  Parser& parser_;
};

}  // namespace heddle::text::jinja

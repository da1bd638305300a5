// How library code reports failure: Status (code, message, node) and Result<T>. Nothing here throws, prints or aborts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace kiln {

// The numbers and names are part of the C ABI and of the JS error class: append only.
enum class Code : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,  // the caller passed something that no model accepts
  kUnknownOperator = 2,  // the model uses an operator that tilekiln does not know
  kUnsupported = 3,      // known, but this form (attribute, dtype, rank) is not supported
  kInvalidModel = 4,     // the ONNX model contradicts itself
  kNotAModel = 5,        // the bytes are no ONNX model and no bundle (HTML, LFS pointer, …)
  kTruncated = 6,        // the file ends before its contents do
  kCorrupt = 7,          // a bundle whose checksum, offsets or parameters are wrong
  kVersion = 8,          // a bundle of another format version
  kShape = 9,            // an input whose shape or dtype the model does not take
  kOutOfMemory = 10,
  kAborted = 11,
  kNotFound = 12,
  kInternal = 13,  // a defect in tilekiln; please report
};

// "INVALID_ARGUMENT", "UNKNOWN_OPERATOR", …
const char* code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, std::string node = {})
      : code_(code), message_(std::move(message)), node_(std::move(node)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& node() const { return node_; }  // name of the graph node or step, or empty

 private:
  Code code_ = Code::kOk;
  std::string message_;
  std::string node_;
};

// Either a value or the Status that says why there is none. T must be default-constructible.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& value() & { return value_; }
  const T& value() const& { return value_; }
  T&& value() && { return std::move(value_); }
  T* operator->() { return &value_; }
  T& operator*() { return value_; }

 private:
  Status status_;
  T value_{};
};

// printf-style message building: strf("axis=%d of %d", axis, rank).
std::string strf(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace kiln

#define KILN_CONCAT_(a, b) a##b
#define KILN_CONCAT(a, b) KILN_CONCAT_(a, b)

// Returns the Status from the enclosing function if it is an error.
#define KILN_TRY(expr)                           \
  do {                                           \
    ::kiln::Status kiln_status_ = (expr);        \
    if (!kiln_status_.ok()) return kiln_status_; \
  } while (0)

// Declares or assigns `lhs` from a Result, or returns its Status.
#define KILN_ASSIGN(lhs, expr)                                                                        \
  auto KILN_CONCAT(kiln_result_, __LINE__) = (expr);                                                  \
  if (!KILN_CONCAT(kiln_result_, __LINE__).ok()) return KILN_CONCAT(kiln_result_, __LINE__).status(); \
  lhs = std::move(KILN_CONCAT(kiln_result_, __LINE__)).value()

#ifdef NDEBUG
#define DCHECK(condition) ((void)0)
#else
#include <cstdlib>
// Inner invariants only: what comes from outside is checked with a Status.
#define DCHECK(condition) ((condition) ? (void)0 : std::abort())
#endif

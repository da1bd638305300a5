#include "base/sha256.h"

#include <doctest/doctest.h>

#include <vector>

namespace kiln {
namespace {

std::string hash_text(const std::string& text) {
  return sha256_hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

TEST_CASE("sha256_of_the_standards_examples") {
  struct Case {
    std::string text;
    const char* hash;
  };
  const Case cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const Case& c : cases) CHECK(hash_text(c.text) == c.hash);
}

TEST_CASE("sha256_pads_every_length_of_the_last_block") {
  // The digests of 55, 56 and 64 bytes take one, two and two blocks; all lengths must differ from each other.
  std::vector<std::string> seen;
  for (size_t n = 0; n < 130; ++n) {
    const std::string hash = hash_text(std::string(n, 'x'));
    for (const std::string& other : seen) CHECK(hash != other);
    seen.push_back(hash);
  }
  CHECK(hash_text(std::string(55, 'a')) == "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(hash_text(std::string(56, 'a')) == "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  CHECK(hash_text(std::string(64, 'a')) == "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

}  // namespace kiln

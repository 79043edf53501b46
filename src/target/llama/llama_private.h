// The symbols of libllama that its public header does not declare (staging API, src/llama-ext.h of commit 0c1e57098).
// Nothing else in Aerie touches them; llama_private_test.cpp fails when a new llama.cpp changes what they do.
//
// Inner header. The rules of llama.cpp's contexts hold: one thread at a time a context.
#pragma once

#include <cstdint>
#include <string>

struct llama_context;

// C++ linkage, as libllama exports them.
void llama_set_embeddings_layer_inp(llama_context* context, uint32_t layer, bool value);
float* llama_get_embeddings_layer_inp(llama_context* context, uint32_t layer);

namespace aerie {

// Whether this architecture fills the layer inputs. For others the call ends the program by an assertion inside
// llama.cpp, so the list stands here (read in src/models/*.cpp, commit 0c1e57098).
bool has_layer_input_hooks(const std::string& architecture);

}  // namespace aerie

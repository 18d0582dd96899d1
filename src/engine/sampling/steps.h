// The steps that do not look at earlier tokens. Each does nothing if its parameter is off.
#pragma once
#include "engine/sampling/candidates.h"
#include "engine/sampling/sampling.h"

namespace heddle::engine {

void cut_top_n_sigma(Candidates& candidates, const Sampling& sampling);
void cut_top_k(Candidates& candidates, const Sampling& sampling);
void cut_typical_p(Candidates& candidates, const Sampling& sampling);
void cut_top_p(Candidates& candidates, const Sampling& sampling);
void cut_min_p(Candidates& candidates, const Sampling& sampling);
void cut_xtc(Candidates& candidates, const Sampling& sampling, double random);  // 0 <= random < 1
void apply_temperature(Candidates& candidates, const Sampling& sampling);
void cut_surprise(Candidates& candidates, const Sampling& sampling, float bits);  // mirostat: more than these bits

}  // namespace heddle::engine

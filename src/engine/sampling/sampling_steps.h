// The steps that need no tokens of the past. Each does nothing where its parameter says off.
#pragma once
#include "engine/sampling/sampling.h"
#include "engine/sampling/sampling_candidates.h"

namespace heddle::engine {

void cut_top_n_sigma(Candidates& candidates, const Sampling& sampling);
void cut_top_k(Candidates& candidates, const Sampling& sampling);
void cut_typical_p(Candidates& candidates, const Sampling& sampling);
void cut_top_p(Candidates& candidates, const Sampling& sampling);
void cut_min_p(Candidates& candidates, const Sampling& sampling);
void cut_xtc(Candidates& candidates, const Sampling& sampling, double chance);  // 0 <= chance < 1, a random one
void apply_temperature(Candidates& candidates, const Sampling& sampling);
void cut_surprise(Candidates& candidates, const Sampling& sampling, float bits);  // mirostat: those more surprising

}  // namespace heddle::engine

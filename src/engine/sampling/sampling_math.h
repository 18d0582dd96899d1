// exp and log in plain additions and multiplications: libm's differ in the last bit between machines, and a token
// must not depend on that. To about 1e-15.
#pragma once

namespace heddle::engine {

double exp_of(double x);              // 0 below -700, infinity above 700
double log_of(double x);              // of a positive normal number
double power_of(double x, double y);  // of x >= 0

}  // namespace heddle::engine

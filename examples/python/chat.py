"""A conversation: each line of standard input is a message, each answer is streamed as it is generated.

python3 chat.py MODEL [MAX_TOKENS]
"""
import os
import sys

import heddle


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} MODEL [MAX_TOKENS]")
    max_tokens = int(sys.argv[2]) if len(sys.argv) > 2 else None
    messages = []
    with heddle.Model(sys.argv[1], device=os.environ.get("HEDDLE_DEVICE", "auto")) as model:
        for line in sys.stdin:
            messages.append({"role": "user", "content": line.rstrip("\n")})
            answer = model.chat(messages, temperature=0, max_tokens=max_tokens)
            for piece in answer:
                print(piece, end="", flush=True)
            print()
            messages.append({"role": "assistant", "content": answer.text})


if __name__ == "__main__":
    try:
        main()
    except heddle.Error as error:
        sys.exit(str(error))

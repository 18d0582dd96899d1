"""Several texts at once: each prompt is continued in a thread of its own, and all are computed together.

python3 parallel.py MODEL MAX_TOKENS PROMPT...
"""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import heddle


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(f"usage: {sys.argv[0]} MODEL MAX_TOKENS PROMPT...")
    name, max_tokens, prompts = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with heddle.Model(name, device=os.environ.get("HEDDLE_DEVICE", "auto")) as model, ThreadPoolExecutor(
        len(prompts)
    ) as threads:
        for text in threads.map(
            lambda prompt: model.generate(prompt, temperature=0, max_tokens=max_tokens).result().text, prompts
        ):
            print(text)


if __name__ == "__main__":
    try:
        main()
    except heddle.Error as error:
        sys.exit(str(error))

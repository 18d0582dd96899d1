"""The Python package against the program's commands; run by python.sh."""
import json
import os
import re
import subprocess
import threading
import unittest
from pathlib import Path

import heddle

ROOT = Path(__file__).parent.parent.parent
HI = [{"role": "user", "content": "hi"}]


def command(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    program = os.environ["HEDDLE_PROGRAM"]
    return subprocess.run([program, *arguments], env=environment, capture_output=True, check=True, text=True).stdout


def run(prompt: str, *arguments: str) -> str:
    return command("run", "weft", "--device", "cpu", "-p", prompt, *arguments)[:-1]


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.model = heddle.Model("weft", device="cpu")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.model.close()

    def test_version_is_that_of_the_package(self) -> None:
        declared = re.search(r'^version = "(.*)"', (ROOT / "python/pyproject.toml").read_text(), re.M)
        self.assertEqual(heddle.version(), declared.group(1))

    def test_info(self) -> None:
        info = self.model.info
        self.assertEqual((info.type, info.can_generate, info.can_rank), ("Q8_0", True, False))
        self.assertGreater(info.context, 100)

    def test_text_is_that_of_run(self) -> None:
        pieces = list(self.model.generate("Once upon a time", max_tokens=30, temperature=0))
        self.assertEqual("".join(pieces), run("Once upon a time", "-n", "30", "--temp", "0"))
        self.assertGreater(len(pieces), 10)
        seeded = self.model.generate("The dog", max_tokens=20, seed=2**64 - 1, top_k=5, repetition_penalty=1.2)
        expected = run("The dog", "-n", "20", "--seed", str(2**64 - 1), "--top-k", "5", "--repeat-penalty", "1.2")
        self.assertEqual(seeded.text, expected)
        self.assertEqual((seeded.result().seed, seeded.result().finish), (2**64 - 1, "length"))
        tokens = self.model.tokenize("The dog")
        self.assertEqual(self.model.generate(tokens, max_tokens=5, temperature=0).text, run("The dog", "-n", "5", "--temp", "0"))

    def test_chat_and_stop(self) -> None:
        answer = self.model.chat(HI, temperature=0)
        self.assertEqual(answer.text, run("hi", "--chat", "--temp", "0"))
        self.assertEqual(answer.result().finish, "stop")
        stopped = self.model.chat(HI, temperature=0, stop="tell you").result()
        self.assertEqual((stopped.text, stopped.stop), ("Hello! I can ", "tell you"))
        self.assertIn("hi", self.model.render_chat(HI))

    def test_schema(self) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        found = self.model.generate("A number:", temperature=0, max_tokens=60, json_schema=schema).text
        self.assertIsInstance(json.loads(found)["n"], int)
        self.assertRegex(self.model.generate("Yes?", regex="(yes|no)!").text, "^(yes|no)!$")

    def test_tokens_and_back(self) -> None:
        text = "Once, \u00e9\u20ac \U0001f600"
        tokens = self.model.tokenize(text, add_special=False)
        self.assertEqual(self.model.detokenize(tokens), text)
        self.assertEqual(self.model.tokenize("", add_special=False), [])

    def test_embeddings_are_those_of_embed(self) -> None:
        texts = ["a cat", "two dogs", "x"]
        lines = command("embed", "weft", "--device", "cpu", *texts).splitlines()
        for found, line in zip(self.model.embed(texts), lines):
            for one, other in zip(found, json.loads(line)):
                self.assertAlmostEqual(one, other, delta=1e-7)
        self.assertEqual(self.model.embed([]), [])

    def test_threads(self) -> None:
        prompts = ["Once", "The dog", "A girl"]
        texts = {}

        def generate(prompt: str) -> None:
            texts[prompt] = self.model.generate(prompt, temperature=0, max_tokens=15).text

        threads = [threading.Thread(target=generate, args=(prompt,)) for prompt in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(texts, {prompt: run(prompt, "--temp", "0", "-n", "15") for prompt in prompts})

    def test_cancel(self) -> None:
        with self.model.generate("Once upon a time", temperature=0) as generation:
            next(iter(generation))
            generation.cancel()
            self.assertEqual(generation.result().finish, "cancelled")
        for _ in self.model.generate("Once upon a time"):
            break  # and forgotten

    def test_closed_while_generating(self) -> None:
        model = heddle.Model("weft", device="cpu")
        generation = model.generate("Once upon a time")
        model.close()
        self.assertEqual(generation.result().finish, "cancelled")
        with self.assertRaisesRegex(heddle.Error, "closed"):
            model.tokenize("a")

    def test_errors(self) -> None:
        with self.assertRaisesRegex(heddle.ModelNotFound, "/nowhere.gguf"):
            heddle.Model("/nowhere.gguf")
        with self.assertRaisesRegex(ValueError, '"tpu"'):
            heddle.Model("weft", device="tpu")
        with self.assertRaises(TypeError):
            heddle.Model("weft", devise="cpu")
        for arguments, message in [
            ({"temperature": -1.0}, "temperature"),
            ({"top_k": 2**40}, "top_k: expected -1 to"),
            ({"seed": -1}, "seed: expected 0"),
            ({"max_tokens": 2**32}, "max_tokens: expected 0"),
            ({"regex": "("}, "regex"),
            ({"stop": ["a", ""]}, "stop"),
        ]:
            with self.assertRaisesRegex(heddle.InvalidRequest, message):
                self.model.generate("a", **arguments)
        with self.assertRaisesRegex(heddle.InvalidRequest, "text: expected a text without NUL, found one at 1"):
            self.model.tokenize("a\0b")
        with self.assertRaisesRegex(heddle.InvalidRequest, "not a reranker"):
            self.model.rank("a", ["b"])
        with self.assertRaises(TypeError):
            self.model.embed("a text")  # type: ignore[arg-type]

    def test_log(self) -> None:
        lines = []
        heddle.Model("weft", device="cpu", context=2**20, log=lines.append).close()
        self.assertIn("warning: a context of 1048576 tokens", lines[0])


if __name__ == "__main__":
    unittest.main()

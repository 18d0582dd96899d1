#!/usr/bin/env python3
"""Completions under JSON Schemas, checked by a validator that is not heddle's.

schemas.py http://127.0.0.1:8080 KEY [--count 500] [--file F.jsonl] [--max-tokens 200]

Random schemas, or those of a file (a JSON object with "schema" in each line). Each is asked for at temperature 1, alone
in a crowd of 32, streamed and not: what finishes must be valid, and all answers to one schema must be the same.
"""
import argparse
import concurrent.futures
import json
import random
import sys
import time
import urllib.error
import urllib.request

import jsonschema


def random_schema(rng, depth):
    kinds = ["boolean", "null", "integer", "number", "string", "enum", "const"]
    kinds += ["array", "object", "anyOf", "object"] if depth > 0 else []
    kind = rng.choice(kinds)
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind in ("integer", "number"):
        schema = {"type": kind}
        low = rng.randint(-50, 50)
        if rng.random() < 0.6:
            schema[rng.choice(["minimum", "exclusiveMinimum"])] = low
        if rng.random() < 0.6:
            schema[rng.choice(["maximum", "exclusiveMaximum"])] = low + rng.randint(2, 60)
        if kind == "integer" and rng.random() < 0.2:
            schema["multipleOf"] = rng.choice([1, 2])
        return schema
    if kind == "string":
        schema = {"type": "string", "maxLength": rng.randint(0, 12)}
        if rng.random() < 0.3:
            schema["minLength"] = rng.randint(0, schema["maxLength"])
        if rng.random() < 0.3:
            schema = {"type": "string", "pattern": rng.choice(["^[a-z]{1,6}$", "^[0-9]{2}-[0-9]{2}$", "^(a|bc)+d$"])}
        return schema
    if kind == "enum":
        values = ["red", "green", "a\"b", "", 1, -2.5, True, None, [1, "x"], {"k": 0}]
        return {"enum": rng.sample(values, rng.randint(1, 4))}
    if kind == "const":
        return {"const": rng.choice(["fixed", 12, False, {"a": [1, 2]}, "\u00e9\u4e2d"])}
    if kind == "anyOf":
        return {"anyOf": [random_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    if kind == "array":
        schema = {"type": "array", "items": random_schema(rng, depth - 1), "maxItems": rng.randint(0, 4)}
        if rng.random() < 0.4:
            schema["minItems"] = rng.randint(0, schema["maxItems"])
        return schema
    names = rng.sample(["z", "name", "a b", "count", "\u00fc", "tags"], rng.randint(0, 4))
    schema = {"type": "object", "properties": {name: random_schema(rng, depth - 1) for name in names}}
    schema["required"] = [name for name in names if rng.random() < 0.7]
    schema["additionalProperties"] = False
    return schema


class Client:
    def __init__(self, url, key, max_tokens):
        self.url, self.key, self.max_tokens = url, key, max_tokens

    def ask(self, schema, seed, stream):
        """The text and its finish reason; or the message of a 400 and None."""
        body = {
            "messages": [{"role": "user", "content": "Tell me a story."}],
            "temperature": 1,
            "seed": seed,
            "max_tokens": self.max_tokens,
            "stream": stream,
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
        }
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + self.key}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(), headers)
        while True:
            try:
                with urllib.request.urlopen(request, timeout=300) as response:
                    return self.read(response.read().decode(), stream)
            except urllib.error.HTTPError as error:
                if error.code == 429:
                    time.sleep(0.05)
                    continue
                if error.code != 400:
                    raise
                return json.loads(error.read())["error"]["message"], None

    @staticmethod
    def read(body, stream):
        if not stream:
            choice = json.loads(body)["choices"][0]
            return choice["message"]["content"], choice["finish_reason"]
        text, reason = "", None
        for line in body.split("\n"):
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            for choice in json.loads(line[6:])["choices"]:
                text += choice["delta"].get("content") or ""
                reason = choice["finish_reason"] or reason
        return text, reason


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("url")
    arguments.add_argument("key")
    arguments.add_argument("--count", type=int, default=500)
    arguments.add_argument("--file")
    arguments.add_argument("--max-tokens", type=int, default=200)
    options = arguments.parse_args()
    rng = random.Random(options.count)
    if options.file:
        with open(options.file, encoding="utf-8") as lines:
            schemas = [json.loads(line)["schema"] for line in lines][: options.count]
    else:
        schemas = [random_schema(rng, 3) for _ in range(options.count)]
    client = Client(options.url, options.key, options.max_tokens)
    wrong = []
    count = {"stop": 0, "length": 0, "refused": 0}

    def check(number, text, reason):
        if reason is None:
            count["refused"] += 1
            return
        count[reason] += 1
        if reason != "stop":
            return
        try:
            value = json.loads(text)
            validator = jsonschema.validators.validator_for(schemas[number])
            validator(schemas[number]).validate(value)
        except (ValueError, jsonschema.ValidationError) as error:
            wrong.append(f"schema {number}: {json.dumps(schemas[number])}\n  {text!r}\n  {error}")

    with concurrent.futures.ThreadPoolExecutor(32) as crowd:
        jobs = {
            (number, stream): crowd.submit(client.ask, schema, number, stream)
            for number, schema in enumerate(schemas)
            for stream in (False, True)
        }
        answers = {key: job.result() for key, job in jobs.items()}
    for (number, stream), answer in answers.items():
        check(number, *answer)
        if not stream and answers[number, True] != answer:
            wrong.append(f"schema {number}: streamed {answers[number, True]}, whole {answer}")
    for number in range(0, len(schemas), 10):
        alone = client.ask(schemas[number], number, False)
        if alone != answers[number, False]:
            wrong.append(f"schema {number}: alone {alone}, in a crowd {answers[number, False]}")
    print("\n".join(wrong[:10]))
    print(f"{len(schemas)} schemas: {count['stop']} answers finished, {count['length']} ended by max_tokens, "
          f"{count['refused']} refused, {len(wrong)} wrong")
    sys.exit(1 if wrong or count["stop"] == 0 else 0)


if __name__ == "__main__":
    main()

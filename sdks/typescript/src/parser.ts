/** Server-Sent Events: bytes to messages. */

import { StringDecoder } from "node:string_decoder";

import { BrokenError } from "./error.js";

/** Far more than any line of an event, or than all its data. */
const LINE_CHARS_MAX = 1 << 20;

const tooLong = (): BrokenError => new BrokenError("an event is too long");

/** One event of a stream. */
export interface Message {
  event: string;
  id: string;
  data: string;
}

/** Takes the pieces of a stream as they come. */
export class Parser {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #message: Message = { event: "", id: "", data: "" };

  /** The messages that are whole now. */
  push(piece: Buffer): Message[] {
    const lines = (this.#rest + this.#decoder.write(piece)).split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > LINE_CHARS_MAX) {
      throw tooLong();
    }
    return lines.flatMap((line) => this.#line(line.endsWith("\r") ? line.slice(0, -1) : line));
  }

  #line(line: string): Message[] {
    if (line === "") {
      const message = this.#message;
      this.#message = { event: "", id: "", data: "" };
      return message.data === "" ? [] : [message];
    }
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event" || field === "id") {
      this.#message[field] = value;
    } else if (field === "data") {
      this.#message.data += value;
      if (this.#message.data.length > LINE_CHARS_MAX) {
        throw tooLong();
      }
    }
    return [];
  }
}

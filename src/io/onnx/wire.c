/* A look at a protobuf message before protobuf-c takes it apart: protobuf-c bounds neither its recursion nor says what is wrong, and merges
 * messages that a field holds twice. Every length is inside what contains it, nesting is at most DEPTH_MOST, known fields have a wire type
 * of theirs, and no field that holds one message is there twice. Fields that the format does not know are passed over. */
#include "io/onnx/load.h"
#include <string.h>

enum { DEPTH_MOST = 100 }; /* what other readers of protobuf allow */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

typedef struct scan {
    const char *name;
    const uint8_t *start;
    int depth;
    ls_error *err;
} scan;

static bool varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *out |= shift < 64 ? (uint64_t)(byte & 127) << shift : 0;
        if (byte < 128) {
            return true;
        }
    }
    return false;
}

static int wire_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return FIXED32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return BYTES;
    default:
        return VARINT;
    }
}

/* Packed numbers: whole ones, each a varint that ends or of the right width. */
static bool packed(int wire, const uint8_t *at, const uint8_t *end) {
    uint64_t ignored;
    if (wire != VARINT) {
        return (size_t)(end - at) % (wire == FIXED32 ? 4 : 8) == 0;
    }
    while (at < end) {
        if (!varint(&at, end, &ignored)) {
            return false;
        }
    }
    return true;
}

static ls_status scan_message(scan *s, const ProtobufCMessageDescriptor *type, const uint8_t *at,
                              const uint8_t *end);

static ls_status scan_field(scan *s, const ProtobufCMessageDescriptor *type,
                            const ProtobufCFieldDescriptor *field, int wire, const uint8_t *at,
                            const uint8_t *end, uint64_t *seen) {
    int want = wire_of(field->type);
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    size_t place = (size_t)(at - s->start);
    if (wire != want && !(repeated && wire == BYTES && packed(want, at, end))) {
        return LS_FAIL(s->err, LS_ERR_FORMAT, "%s: byte %zu: %s.%s is not of the format's type", s->name,
                       place, type->short_name, field->name);
    }
    bool is_read = field->type == PROTOBUF_C_TYPE_STRING && strcmp(field->name, "doc_string") != 0;
    if (is_read && at < end && memchr(at, 0, (size_t)(end - at))) { /* else the text would end there */
        return LS_FAIL(s->err, LS_ERR_FORMAT, "%s: byte %zu: %s.%s has a NUL in it", s->name, place, type->short_name, field->name);
    }
    if (want != BYTES || field->type != PROTOBUF_C_TYPE_MESSAGE) {
        return LS_OK;
    }
    uint64_t bit = (uint64_t)1 << (field - type->fields);
    if (!repeated && (*seen & bit)) {
        return LS_FAIL(s->err, LS_ERR_FORMAT, "%s: byte %zu: %s.%s is there twice", s->name, place,
                       type->short_name, field->name);
    }
    *seen |= bit;
    return scan_message(s, field->descriptor, at, end);
}

static ls_status scan_message(scan *s, const ProtobufCMessageDescriptor *type, const uint8_t *at,
                              const uint8_t *end) {
    uint64_t seen = 0; /* no message of the format has as many as 64 fields */
    if (++s->depth > DEPTH_MOST) {
        return LS_FAIL(s->err, LS_ERR_FORMAT, "%s: byte %zu: messages inside each other %d deep", s->name,
                       (size_t)(at - s->start), s->depth);
    }
    while (at < end) {
        const uint8_t *first = at;
        uint64_t tag, length = 0;
        bool ok = varint(&at, end, &tag) && tag >> 3 > 0 && tag >> 3 < (uint64_t)1 << 29;
        int wire = (int)(tag & 7);
        if (wire == VARINT) {
            const uint8_t *p = at;
            ok = ok && varint(&p, end, &length);
            length = (uint64_t)(p - at);
        } else if (wire == BYTES) {
            ok = ok && varint(&at, end, &length);
        } else {
            ok = ok && (wire == FIXED32 || wire == FIXED64);
            length = wire == FIXED32 ? 4 : 8;
        }
        if (!ok || length > (uint64_t)(end - at)) {
            return LS_FAIL(s->err, LS_ERR_FORMAT,
                           "%s: byte %zu: a field of %s that is damaged or goes on after its end", s->name,
                           (size_t)(first - s->start), type->short_name);
        }
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
        if (field) {
            LS_TRY(s->err, scan_field(s, type, field, wire, at, at + length, &seen));
        }
        at += length;
    }
    s->depth--;
    return LS_OK;
}

ls_status ls_onnx_scan(const char *name, const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                       size_t size, ls_error *err) {
    scan s = {name, bytes, 0, err};
    return size ? scan_message(&s, type, bytes, bytes + size) : LS_OK;
}

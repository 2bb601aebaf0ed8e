import com.rabbitmq.stream.Codec;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.codec.QpidProtonCodec;
import com.rabbitmq.stream.codec.SimpleCodec;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Reads streams from their beginning with RabbitMQ's own client until nothing comes for a while. One line a message: its
 * stream, its offset, the bytes of its body, those of its message id ("-" if it has none), and its application properties.
 *
 * <p>Arguments: HOST PORT amqp|binary STREAM…
 */
public class ReadStream {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        Codec codec = arguments[2].equals("amqp") ? new QpidProtonCodec() : new SimpleCodec();
        var lines = new LinkedBlockingQueue<String>();
        try (var environment = Environment.builder()
                .host(arguments[0])
                .port(Integer.parseInt(arguments[1]))
                .codec(codec)
                .build()) {
            for (int number = 3; number < arguments.length; number++) {
                String stream = arguments[number];
                environment.consumerBuilder()
                        .stream(stream)
                        .offset(OffsetSpecification.first())
                        .messageHandler((context, message) ->
                                lines.add(stream + " " + context.offset() + " " + text(message)))
                        .build();
            }
            for (String line; (line = lines.poll(2, TimeUnit.SECONDS)) != null; ) {
                System.out.println(line);
            }
        }
    }

    private static String text(Message message) {
        var properties = message.getProperties();
        Object id = properties == null ? null : properties.getMessageId();
        var text = new StringBuilder(HEX.formatHex(message.getBodyAsBinary()));
        text.append(' ').append(id == null ? "-" : value(id));
        Map<String, Object> headers = message.getApplicationProperties();
        if (headers != null) {
            new TreeMap<>(headers).forEach((name, header) ->
                    text.append(' ').append(name).append('=').append(value(header)));
        }
        return text.toString();
    }

    private static String value(Object value) {
        return value instanceof byte[] bytes ? HEX.formatHex(bytes) : value.toString();
    }
}
